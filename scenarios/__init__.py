"""Tasks for the planar world, one file each."""

if __name__ != "marlenv.scenarios":
    raise ImportError(
        f"this package is imported as marlenv.scenarios, not as {__name__!r}; run Python from outside the "
        "checkout, or install it"
    )
