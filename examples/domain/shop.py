"""A domain that sells: services for other domains, and a queue of orders."""

from wirelake.live.casual import Domain, Reply

domain = Domain()
STOCK = {"screw": 100, "nail": 3}


@domain.service("stock.count", transaction="none")
def count(item):
    return STOCK.get(item, 0)


@domain.service("order.create", transaction="auto")
async def create(order):
    if STOCK.get(order["item"], 0) < order["many"]:
        return Reply({"reason": "sold out"}, code=17, failed=True)
    await domain.enqueue("orders", order)  # belongs to the transaction of the caller
    return {"accepted": order["many"]}


@domain.conversational("stock.browse")
async def browse(talk, first):
    for item, many in STOCK.items():
        await talk.send({item: many})
    return "that is all"
