"""Methods as users write them: small pieces of scenarios, and mistakes."""
