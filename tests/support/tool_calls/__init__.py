"""Public vectors of tool calls: outputs of models and their meaning."""
