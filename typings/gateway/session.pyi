class SessionSource:
    chat_id: str

def build_session_key(source: SessionSource) -> str: ...
