"""Reads the metadata of a GGUF file: the key-value pairs before the tensors.

The reader is that of the format's own package, `gguf`. It takes seconds for a large vocabulary, so the model directory
that is made of the metadata is kept (model_directory.py).
"""

from pathlib import Path

from antiphon_local_triton.errors import LocalModelError

Value = bool | int | float | str | list["Value"]

_HEADER_PREFIX = "GGUF."  # the reader's own names for the fields of the file header


def read_metadata(path: Path) -> dict[str, Value]:
    """All key-value pairs of the file. Raises LocalModelError when it is not a readable GGUF file."""
    from gguf import GGUFReader  # with numpy, which a start whose model directory is there does not need

    try:
        fields = GGUFReader(path).fields.items()
        return {name: field.contents() for name, field in fields if not name.startswith(_HEADER_PREFIX)}
    except FileNotFoundError:
        raise LocalModelError(f"There is no file {path}.") from None
    except (OSError, ValueError, IndexError, KeyError, OverflowError) as error:
        raise LocalModelError(f"{path} cannot be read as a GGUF model file: {error}.") from error
