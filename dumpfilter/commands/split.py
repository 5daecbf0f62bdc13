def split_command() -> None:
    """placeholder until the split lands in this session"""
