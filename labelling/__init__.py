"""Labels from people: the answers they gave, which text is asked of whom next, and the formats that answers come in."""
