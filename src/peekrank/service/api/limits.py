"""Hard limits of the HTTP interface. A configuration can lower some of them, and raise none."""

MAX_BODY = 4 * 2**20  # bytes of a request body
RERANK_BODIES = 4  # a rerank call, which has texts, may be so many times as large
MAX_HEAD = 64 * 2**10  # bytes of the address and the headers of a request
MAX_LINES = 1000  # lines of a batch
MAX_BATCH_REPLY = 16 * 2**20  # bytes of the replies to a batch, after which the service runs no further lines
MAX_ID = 128  # characters of a name
MAX_ITEMS = 1000  # items of a list, or of a call that registers items
MAX_FEATURES = 1024  # features of an item
MAX_OPEN = 1_000_000  # open events of a slot
LARGEST_GRADE = 1e9
LARGEST_SCORE = 1e100
