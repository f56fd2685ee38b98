from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from antiphon_tokens import signature
from antiphon_translator.engines import triton_detect
from antiphon_translator.engines.triton_model import read_config
from antiphon_translator.generation import Level


def parsed(features: set[str]) -> model_config_pb2.ModelConfig:
    text = signature.config('a "b"', "llama_cpp", features, batch_max=8)
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_configuration_has_the_tensors_of_all_features_and_no_others() -> None:
    bare, whole = parsed(set()), parsed(set(signature.FEATURES))
    assert (bare.name, bare.max_batch_size, bare.model_transaction_policy.decoupled) == ('a "b"', 8, True)
    assert "cache_salt" not in {each.name for each in bare.input}
    assert {each.name for each in whole.input} == {tensor.name for tensor in signature.INPUTS}
    assert {each.name for each in whole.output} == {tensor.name for tensor in signature.OUTPUTS}
    assert {each.name for each in whole.input if not each.optional} == {"input_lengths", "request_output_len"}


def test_each_feature_is_known_again_by_its_inputs() -> None:
    for feature in signature.FEATURES:
        assert signature.features_of({each.name for each in parsed({feature}).input}) == {feature}


def test_translator_takes_the_model_for_one_of_tokens() -> None:
    assert triton_detect.describe(read_config(parsed(set()))).level is Level.TOKENS
