"""Log probabilities: assigns those that engines report to texts, and converts them to the API's form."""
