"""Objects as the server last told them: stores, indexes, views, and the feed that fills them."""
