"""What the emulator of this family is made of: gateway, documents, lists and numbers."""
