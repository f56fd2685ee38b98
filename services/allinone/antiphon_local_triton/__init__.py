"""A real Triton server with a small model on this machine, without GPU and without container.

Owns everything that `antiphon up` needs for it: the server's virtual environment (`server_venv`), the model
repository (`repository`, `model_repository/`), the model directory that a translator loads tokenizer and chat template
from (`model_directory`), and the server's process (`supervisor`). Knows nothing of the Responses API.
"""
