"""What can go wrong, by whom it can be mended.

Every message is one sentence that names the key, the value and what would do, because it is printed as it is.
"""


class OnlookerError(Exception):
    """The root of all errors that a user can mend; the command prints its message and exits with status 2."""


class ConfigError(OnlookerError):
    """A configuration file, an option or a `--set` that cannot be understood."""


class TermsError(OnlookerError):
    """A value that no run could have: epsilon 0, a rate above 1, an unknown observer."""


class UnpricedError(OnlookerError):
    """A combination whose privacy cannot be priced soundly, and which therefore does not run."""


class DataError(OnlookerError):
    """Data that is missing, unreadable or not what the configuration says."""


class ModelError(OnlookerError):
    """A model that cannot be trained under the terms: it keeps state, or has no parameters."""


class FolderError(OnlookerError):
    """A run folder that cannot be written, read or resumed."""


class WorkerError(OnlookerError):
    """A process that trained clients ended before its work was done."""


class MessageError(OnlookerError):
    """Bytes that are no message between parties, or one that its sender did not sign, or that is for somebody else."""


class ProtocolError(OnlookerError):
    """Something that a party may not say now; nothing has changed."""


class WaitingError(ProtocolError):
    """Something that a server cannot do before others have told it what they remember; soon it can."""


class UnreachableError(OnlookerError):
    """A party that does not answer; it may later."""


class RestoredError(OnlookerError):
    """A server whose memory is older than what others have heard from it: it must not go on, for it would say again."""


class BudgetError(OnlookerError):
    """A report that would take a client past its own limit; nothing was charged and nothing leaves."""


class SealedError(OnlookerError):
    """Other bytes for a round that was sealed before.

    Two noises on one sum would tell more than one, so the round is given up.
    """
