"""Errors of a run's life that a person can meet."""

from __future__ import annotations

from arc.base.errors import ArcError, CorruptError, ExitStatus, NotFoundError, RefusedError, UsageError


class RunNotFoundError(NotFoundError):
    """No run matches an id or prefix."""

    code = "run.not_found"


class AmbiguousRunError(UsageError):
    """More than one run matches a prefix."""

    code = "run.ambiguous"


class LogsDirError(RefusedError):
    """The folder of a new run exists already and is not empty, or cannot be created."""

    code = "run.logs_dir"


class ConfigError(UsageError):
    """A configuration file says something arc does not know; the message starts with file:line:column."""

    code = "config.invalid"


class NoBackendError(UsageError):
    """A node needs a model and no backend is configured."""

    code = "run.no_backend"


class SourceError(UsageError):
    """What was given to start is neither a workflow nor a run configuration, or cannot be read."""

    code = "run.source"


class CheckpointWriteError(ArcError):
    """Step 1 of the checkpoint cycle failed: the state could not be written to the disk. The run stops."""

    code = "checkpoint.disk"


class RecordWriteError(ArcError):
    """A file of the run folder could not be written."""

    code = "run.folder_write"


class ArtifactMissingError(CorruptError):
    """A context value was stored as an artifact and the artifact is gone."""

    code = "artifact.missing"


class StateMismatchError(CorruptError):
    """Files and state of a run do not belong together."""

    code = "run.mismatch"


class RunIncompleteError(CorruptError):
    """The run was killed before it had anything to resume, or its folder lacks what a resume needs."""

    code = "run.incomplete"


class SupersededError(RefusedError):
    """The run was rewound: another run took its place."""

    code = "run.superseded"


class MissingVariableError(UsageError):
    """The run was configured with a secret that is stored nowhere, and the environment does not hold it now."""

    code = "run.variable_missing"


class SetupError(ArcError):
    """A setup command failed before the first node."""

    code = "run.setup"


class QuestionError(NotFoundError):
    """No open question matches."""

    code = "question.not_found"


class NewerSchemaError(CorruptError):
    """A file was written by a newer arc."""

    code = "schema.newer"
    status = ExitStatus.FAILED
