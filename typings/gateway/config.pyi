from typing import Any

class Platform:
    def __init__(self, value: str) -> None: ...

class PlatformConfig:
    extra: dict[str, Any]
