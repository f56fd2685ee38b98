"""A real Triton server with a small model on this machine, without GPU and without container.

Has everything that `antiphon up` needs for it: the server's virtual environment (`server_venv`), the model
repository (`repository`, with the model of antiphon_tokens), the model directory from which a translator loads
tokenizer and chat template (`model_directory`), and the server's process (`supervisor`). It does not
use the Responses API.
"""
