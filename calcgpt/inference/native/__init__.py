"""The native engine: a decoder in machine code, which needs neither torch nor a compiler."""
