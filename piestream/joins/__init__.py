"""From decided pairs to matches: the rings, the pair index, the endpoint index, the join plan."""
