"""Python client of Beacon: `Beacon` for code that blocks, `RunnerClient` for asyncio."""

from beacon_client.admin import AdminClient
from beacon_client.credentials import CredentialsError, find_credentials
from beacon_client.downloads import DamagedFileError, Progress
from beacon_client.errors import BeaconError, BeaconUnreachable, JobFailedError, WaitTimeoutError
from beacon_client.files import FileClient, UploadSource
from beacon_client.outputs import SavedFile
from beacon_client.runner import RunnerClient
from beacon_client.submissions import Job, Submission
from beacon_client.sync import Beacon
from beacon_contracts.accounts import Me
from beacon_contracts.credentials import Credentials
from beacon_contracts.events import EventType, ExecutionProgress, JobEvent
from beacon_contracts.files import FileView
from beacon_contracts.inference import RunProgress
from beacon_contracts.jobs import (
    ExecutionState,
    ExecutionView,
    GenerationJob,
    JobAccepted,
    JobState,
    JobSummary,
    JobView,
    MatrixJob,
    PipelineJob,
)
from beacon_contracts.problem import Problem
from beacon_contracts.wait_reason import WhyView

__version__ = "0.1.0"

__all__ = [
    "AdminClient",
    "Beacon",
    "BeaconError",
    "BeaconUnreachable",
    "Credentials",
    "CredentialsError",
    "DamagedFileError",
    "EventType",
    "ExecutionProgress",
    "ExecutionState",
    "ExecutionView",
    "FileClient",
    "FileView",
    "GenerationJob",
    "Job",
    "JobAccepted",
    "JobEvent",
    "JobFailedError",
    "JobState",
    "JobSummary",
    "JobView",
    "MatrixJob",
    "Me",
    "PipelineJob",
    "Problem",
    "Progress",
    "RunProgress",
    "RunnerClient",
    "SavedFile",
    "Submission",
    "UploadSource",
    "WaitTimeoutError",
    "WhyView",
    "__version__",
    "find_credentials",
]
