"""What a model wrote, as reasoning, text and calls: one engine, and one table per model family."""
