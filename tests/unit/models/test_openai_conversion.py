"""Messages and answers, to OpenAI's form and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from jianmu.errors import ModelError
from jianmu.messages import Message, ToolCall
from jianmu.models import ModelResponse, ModelSettings, Usage
from jianmu.models.openai import _Gathered, _response, _tool_choice, to_openai_messages
from jianmu.testing.models import _completion, _streamed

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
good_calls = st.builds(ToolCall, id=names, name=names, arguments=st.dictionaries(st.text(), json_values, max_size=3))
bad_texts = st.sampled_from(["{", "[1]", '"text"', "null", "{'a': 1}", "[" * 100_000])
calls = good_calls | st.builds(ToolCall, id=names, name=names, raw_arguments=bad_texts)
answers = st.builds(
    ModelResponse,
    message=st.builds(Message.assistant, st.text(), st.lists(calls, max_size=3)),
    model=names,
    usage=st.builds(Usage, input_tokens=st.integers(0, 10**9), output_tokens=st.integers(0, 10**9)),
    finish_reason=st.sampled_from(["stop", "tool_calls", "length"]),
)


@given(answers)
def test_an_answer_arrives_as_it_was_sent(answer):
    assert _response(ChatCompletion.model_validate(_completion(answer)), "m") == answer


@given(answers)
def test_a_streamed_answer_is_put_together_again(answer):
    gathered, texts = _Gathered(model="m"), []
    for piece in _streamed(answer, {"stream_options": {"include_usage": True}}):
        content = piece.data.decode().removeprefix("data: ").strip()
        if content != "[DONE]":
            texts.append(gathered.add(ChatCompletionChunk.model_validate_json(content)))
    assert gathered.response() == answer
    assert "".join(texts) == answer.message.text


@given(st.builds(Message.assistant, st.text(), st.lists(calls, min_size=1, max_size=3)))
def test_what_is_sent_back_is_what_the_model_had_said(message):
    (sent,) = to_openai_messages([message])
    assert sent["content"] == (message.content or None)
    for call, written in zip(message.tool_calls, sent["tool_calls"], strict=True):
        assert (written["id"], written["function"]["name"]) == (call.id, call.name)
        if call.raw_arguments is None:
            assert json.loads(written["function"]["arguments"]) == call.arguments
        else:
            assert written["function"]["arguments"] == call.raw_arguments


def test_each_role_has_its_form():
    blocks = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    sent = to_openai_messages(
        [
            Message.system("be kind"),
            Message.user(blocks, name="ann"),
            Message.assistant("hm"),
            Message.tool_result("c1", "42", name="count", metadata={"is_error": True}),
        ]
    )
    assert sent == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": blocks, "name": "ann"},
        {"role": "assistant", "content": "hm"},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    ]


@given(st.text(alphabet=st.characters(categories=["Cs", "Lu"])))
def test_every_message_can_be_sent(text):
    call = ToolCall(name="a", raw_arguments=text)
    blocks = [{"type": "text", "text": text}]
    json.dumps(to_openai_messages([Message.user(text), Message.user(blocks), Message.assistant(text, [call])])).encode()
    for message in to_openai_messages([Message.user(text), Message.assistant(text, [call])]):
        json.dumps(message, ensure_ascii=False).encode()


def _answer(**message):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return ChatCompletion.model_construct(
        **ChatCompletion.model_validate(
            {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        ).__dict__
    )


def test_no_arguments_at_all_are_an_empty_object():
    call = {"id": "c", "type": "function", "function": {"name": "now", "arguments": ""}}
    (got,) = _response(_answer(content=None, tool_calls=[call]), "m").message.tool_calls
    assert (got.arguments, got.raw_arguments) == ({}, None)


def test_a_call_without_an_id_gets_one():
    call = {"id": "", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    first, second = _response(_answer(content=None, tool_calls=[call, call]), "m").message.tool_calls
    assert first.id
    assert first.id != second.id


def test_a_refusal_is_the_answer_and_is_marked():
    message = _response(_answer(content=None, refusal="I will not."), "m").message
    assert (message.text, message.metadata) == ("I will not.", {"refusal": "I will not."})


def test_an_answer_without_a_choice_is_an_error():
    empty = ChatCompletion.model_validate(
        {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": []}
    )
    with pytest.raises(ModelError, match="is no chat completion"):
        _response(empty, "m")


def test_a_stream_that_broke_off_is_an_error():
    with pytest.raises(ModelError, match="broke off after 0 characters"):
        _Gathered(model="m").response()


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", "auto"),
        ("required", "required"),
        ("weather", {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_a_tool_can_be_chosen_by_name(choice, sent):
    assert _tool_choice(ModelSettings(tool_choice=choice)) == sent
