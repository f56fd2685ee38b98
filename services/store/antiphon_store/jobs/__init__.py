"""Jobs: claimed by one holder at a time, taken over when it is gone, ended once."""
