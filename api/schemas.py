"""What goes over the wire."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CalculateRequest(BaseModel):
    """One operation on two numbers of at most two decimal places."""

    model_config = ConfigDict(extra="forbid")

    expression: str = Field(examples=["12.5*3"])


class Confidence(BaseModel):
    """How probable the model held what it wrote, from 0 to 1."""

    model_config = ConfigDict(from_attributes=True)

    answer: float = Field(description="the answer, given the work", examples=[0.9999])
    weakest_step: float = Field(
        description="the least probable character of the work, likewise; 1 where there is none",
        examples=[0.9991],
    )
    whole: float = Field(
        description="work and answer together, but for a quotient's digits, which are choices",
        examples=[0.9985],
    )


class CalculateResponse(BaseModel):
    """The model's answer and its evidence; the exact value never replaces the answer."""

    expression: str = Field(description="what was understood", examples=["12.5*3"])
    result: str | None = Field(
        description="the model's answer; null where its output is no number", examples=["37.5"]
    )
    exact: str = Field(description="the answer by exact arithmetic", examples=["37.5"])
    verified: bool = Field(description="whether the two agree", examples=[True])
    prompt: str = Field(description="what the model read", examples=["$(00000012.5*0000000003)="])
    output: str = Field(
        description="what the model wrote: its worked steps and `=`, where it works in steps, "
        "then the answer reversed",
        examples=["5.73000000$"],
    )
    confidence: Confidence
    model: str = Field(description="name of the checkpoint", examples=["blog"])


class Status(BaseModel):
    """Answer of the health endpoints."""

    status: str = Field(examples=["ok"])
    model: str | None = Field(None, description="name of the checkpoint, once it is loaded")


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    type: str = Field("about:blank", description="the kind of problem")
    title: str = Field(examples=["Unprocessable Content"])
    status: int = Field(examples=[422])
    detail: str = Field(
        description="what is wrong, for a person", examples=["a number is expected, not 'x'"]
    )
    position: int | None = Field(
        None, description="0-based index of the offending character of the expression"
    )
