"""A call: its request, the rules that its caller broke, and the words of a refusal."""
import grpc


class Refusal(Exception):
    def __init__(self, code, words):
        super().__init__(words)
        self.code = code


def refuse(code, words):
    assert hasattr(grpc.StatusCode, code)
    raise Refusal(code, words)


class Call:
    def __init__(self, method, request, note):
        self.method = method
        self.request = request
        self.note = note

    def breach(self, rule, words):
        """The caller broke a MUST of the specification: noted, and the call goes on."""
        self.note(self, {"rule": rule, "method": self.method, "words": words})

    def refuse_breach(self, code, rule, words):
        self.breach(rule, words)
        refuse(code, words)
