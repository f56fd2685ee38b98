"""Log probabilities, as engines report them and as clients read them."""
