"""What ``marlenv bench`` measures: one file per suite, each side's code beside the other's."""
