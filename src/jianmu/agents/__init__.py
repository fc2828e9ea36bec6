"""Ready-made agent trees."""
