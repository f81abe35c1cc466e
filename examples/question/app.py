"""An app that asks one question: `python app.py http://127.0.0.1:8000 8080`."""

import sys
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from peekrank.service.client import Client, Problem

service = Client(sys.argv[1])
FORM = """<!DOCTYPE html><meta charset=utf-8><title>Today</title><ol>{items}</ol>
<form method=post>Did {first} help? <input type=hidden name=event value={event}>
<button name=answer value=1>Yes</button>
<button name=answer value=0>No</button></form>"""


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/":
            return self.send_error(404)
        reply = service.rank("home")
        items = "".join(f"<li>{escape(item)}</li>" for item in reply.ranking)
        first = escape(reply.top_k[0])
        return self.reply(FORM.format(items=items, first=first, event=reply.event_id))

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        form = parse_qs(self.rfile.read(length).decode())
        try:
            service.feedback(form["event"][0], [int(form["answer"][0])])
        except Problem as problem:  # already answered, or too late
            title = escape(problem.title)
            return self.reply(f"Not counted: {title}. <a href=/>Next list</a>")
        return self.reply("Thank you. <a href=/>Next list</a>")

    def reply(self, html: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(html.encode())


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Page).serve_forever()
