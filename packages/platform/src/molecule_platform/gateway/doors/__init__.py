"""Ways into the house that are used all day. They call services and never a link."""
