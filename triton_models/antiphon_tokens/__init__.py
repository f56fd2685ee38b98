"""A token-level model for Triton's Python backend: ids in, streamed ids out, over one of several engines.

The tensors are those of the classic `tensorrt_llm` model (`signature`), with optional ones added. `model` is Triton's
side: it reads a request (`requests`) into a `generation.Generation`, submits it to an `engine.Engine`, and sends what
the engine generates (`replies`). Each engine is a file of `engines`. `repository` writes the folder that Triton serves.

Only `model`, `requests`, `replies` and `tensors` run inside Triton alone; they need numpy and Triton's
`triton_python_backend_utils`. Everything else needs the standard library.
"""
