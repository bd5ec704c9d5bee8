"""The fine-tuning files of a chat model: `task=chat_export chat=gpt35 output=FOLDER`."""

from tasks.chat import chat_export

__all__ = ["chat_export"]
