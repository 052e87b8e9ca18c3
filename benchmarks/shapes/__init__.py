"""The shapes of answers that are decoded, each with its peers."""
