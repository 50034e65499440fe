"""Files as arguments: the marker on a parameter, and what the handler gets."""

from collections.abc import Sequence
from typing import Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler


class UploadedFile(BaseModel):
    """A file that the caller sent; its bytes are read through the workspace."""

    model_config = ConfigDict(frozen=True)

    path: str
    filename: str
    media_type: str = "application/octet-stream"
    size_bytes: int = 0


class FileUpload:
    """Annotation of a parameter that takes uploaded files; forms show a file chooser for it."""

    def __init__(
        self,
        accept: Sequence[str] | str = (),
        max_bytes: int | None = None,
        multiple: bool = False,
        description: str = "",
    ) -> None:
        self.accept = [accept] if isinstance(accept, str) else list(accept)
        self.max_bytes = max_bytes
        self.multiple = multiple
        self.description = description

    def marker(self) -> dict[str, Any]:
        """The value of the schema key `x-a2a-file-upload`."""
        optional = {
            "accept": self.accept,
            "max_bytes": self.max_bytes,
            "multiple": self.multiple,
            "description": self.description,
        }
        return {"required_upload": True} | {name: value for name, value in optional.items() if value}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return AfterValidator(self._checked).__get_pydantic_core_schema__(source, handler)

    def _checked(self, value: Any) -> Any:
        files = [value] if isinstance(value, UploadedFile) else value
        for file in files or ():
            if self.max_bytes is not None and getattr(file, "size_bytes", 0) > self.max_bytes:
                raise ValueError(f"the file is larger than {self.max_bytes} bytes")
        return value

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "x-a2a-file-upload": self.marker()}
