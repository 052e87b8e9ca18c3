"""What the emulators of this family are made of: gateway, documents, lists and numbers."""
