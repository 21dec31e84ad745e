"""Parts that are added to a plain model, one room each."""
