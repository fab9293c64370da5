//! Classify and Regress from outside, with examples as TensorFlow Serving's clients send them.
//! Whole examples go to models that parse them themselves, features to the columns of all others.

use std::sync::Arc;

use crate::support;
use crate::support::examples::{
    CLASSIFY, MULTI_INFERENCE, REGRESS, SESSION_RUN, classes, example, floats, list, list_with_context, multi, request,
    session, strings, values, wholes,
};
use crate::support::inference::*;
use crate::support::messages::{answered_by, bytes_of, float_tensor, float_values, predict_x, shape_of, tensor};
use crate::support::{Gate, Model, Random, Running, eventually, spec, zeros};
use tidegate_codec::dtype::{ALL, DType};
use tidegate_codec::signatures::TensorSpec;
use tidegate_engine::batching::Prediction;
use tidegate_engine::serving_map::Change;

#[test]
fn a_model_that_parses_examples_gets_them_whole() {
    let running = running(&parses_itself(), of_tensorflow());
    let mut grpc = running.grpc();
    let (short, long) = (example(&[("a", floats(&[1.0]))]), example(&[("a", strings(&[b"longer than that"]))]));
    let body = ok(grpc.call(CLASSIFY, &[], &request("m", "", &list(&[short.clone(), long.clone()]))));
    let pairs = |length: usize| vec![("no".to_owned(), -(length as f32)), ("yes".to_owned(), length as f32)];
    assert_eq!(classes(bytes_of(&body, 1)[0]), [pairs(short.len()), pairs(long.len())]);
    assert_eq!(answered_by(&body), (7, "serving_default".to_owned()));
    let input = list_with_context(&long, &[short.clone(), Vec::new()]);
    let body = ok(grpc.call(REGRESS, &[], &request("m", "value", &input)));
    assert_eq!(values(bytes_of(&body, 1)[0]), [(long.len() + short.len()) as f32, long.len() as f32]);
    assert_eq!(answered_by(&body), (7, "value".to_owned()));
}

#[test]
fn a_predict_signature_gets_them_whole_where_its_one_string_input_has_tensorflow_servings_name() {
    let outputs = || vec![spec("outputs", DType::Float32, &[-1, 1])];
    let text = || vec![spec("text", DType::String, &[-1])];
    let model = parses_itself();
    let running = running(
        &model,
        vec![
            named("serving_default", PREDICT_METHOD, inputs(), outputs()),
            named("text", PREDICT_METHOD, text(), outputs()),
        ],
    );
    let mut grpc = running.grpc();
    let one = example(&[("text", strings(&[b"12345"]))]);
    let mut ask = |signature: &str| {
        let input = list(std::slice::from_ref(&one));
        values(bytes_of(&ok(grpc.call(REGRESS, &[], &request("m", signature, &input))), 1)[0])
    };
    assert_eq!((ask(""), ask("text")), (vec![one.len() as f32], vec![5.0]));
}

#[test]
fn the_kind_of_input_that_was_sent_last_counts() {
    let running = running(&parses_itself(), of_tensorflow());
    let (one, two) = (example(&[("a", floats(&[1.0]))]), example(&[("b", strings(&[b"more"]))]));
    let input = [list(&[one.clone(), one.clone()]), list_with_context(&one, std::slice::from_ref(&two))].concat();
    let body = ok(running.grpc().call(REGRESS, &[], &request("m", "value", &input)));
    assert_eq!(values(bytes_of(&body, 1)[0]), [(one.len() + two.len()) as f32]);
    let twice = [list(std::slice::from_ref(&one)), list(std::slice::from_ref(&two))].concat();
    let body = ok(running.grpc().call(REGRESS, &[], &request("m", "value", &twice)));
    assert_eq!(values(bytes_of(&body, 1)[0]), [one.len() as f32, two.len() as f32]);
}

#[test]
fn features_become_columns_of_every_type() {
    for dtype in ALL {
        let running = with_columns(vec![spec("a", dtype, &[-1])]);
        let feature = match dtype {
            DType::String => strings(&[b"12345"]),
            DType::Float16 | DType::Float32 | DType::Float64 => floats(&[1.0]),
            _ => wholes(&[1]),
        };
        let answer = running.grpc().call(REGRESS, &[], &request("m", "", &list(&[example(&[("a", feature)])])));
        if dtype.is_complex() {
            let wrong = "Data types don't match. Data type: int64 but expected type";
            refused(&answer, &format!("Name: <unknown>, Key: a, Index: 0.  {wrong}: {}", dtype.name()));
            continue;
        }
        let expected = if dtype == DType::String { 5.0 } else { 1.0 };
        assert_eq!(values(bytes_of(&ok(answer), 1)[0]), [expected], "{dtype:?}");
    }
}

#[test]
fn an_example_overrides_the_context_and_other_features_are_ignored() {
    let running = with_columns(vec![
        spec("price", DType::Float32, &[-1]),
        spec("city", DType::String, &[-1]),
        spec("pair", DType::Float32, &[-1, 2]),
    ]);
    let context = example(&[("city", strings(&[b"Bath"])), ("price", floats(&[100.0])), ("unused", wholes(&[9]))]);
    let one = example(&[("pair", floats(&[1.0, 2.0]))]);
    let two = example(&[("pair", wholes(&[3, 4])), ("price", floats(&[1000.0])), ("city", strings(&[b""]))]);
    let answer = running.grpc().call(REGRESS, &[], &request("m", "", &list_with_context(&context, &[one, two])));
    assert_eq!(values(bytes_of(&ok(answer), 1)[0]), [107.0, 1007.0]);
}

#[test]
fn unpacked_lists_are_read_and_open_dimensions_follow_the_first_example() {
    let running = with_columns(vec![spec("a", DType::Float32, &[-1, -1])]);
    let mut grpc = running.grpc();
    let mut ask = |examples: &[Vec<u8>]| grpc.call(REGRESS, &[], &request("m", "", &list(examples)));
    let unpacked = [&[0x12, 10, 0x0d][..], &1f32.to_le_bytes(), &[0x0d], &4f32.to_le_bytes()].concat();
    let body = ok(ask(&[example(&[("a", floats(&[1.0, 2.0]))]), example(&[("a", unpacked)])]));
    assert_eq!(values(bytes_of(&body, 1)[0]), [3.0, 5.0]);
    let uneven = ask(&[example(&[("a", floats(&[1.0, 2.0]))]), example(&[("a", floats(&[1.0]))])]);
    let text = "Name: <unknown>, Key: a, Index: 1.  Number of float values != expected.  Values size: 1 but output shape: [-1]";
    refused(&uneven, text);
    let running = with_columns(vec![spec("a", DType::Float32, &[-1, -1, 2])]);
    let odd = running.grpc().call(REGRESS, &[], &request("m", "", &list(&[example(&[("a", floats(&[1.0; 3]))])])));
    refused(&odd, &text.replace("Index: 1", "Index: 0").replace("size: 1", "size: 3").replace("[-1]", "[-1,2]"));
    let running = with_columns(vec![spec("a", DType::Float32, &[-1, -1, -1])]);
    let open = running.grpc().call(REGRESS, &[], &request("m", "", &list(&[example(&[("a", floats(&[1.0; 4]))])])));
    let text = "An example cannot say its dimensions: the signature has shape [-1,-1,-1].";
    refused(&open, &format!("Name: <unknown>, Key: a, Index: 0.  {text}"));
}

#[test]
fn a_feature_that_does_not_fit_is_named_with_its_example() {
    let flag = with_columns(vec![spec("b", DType::Bool, &[-1])]);
    let two = flag.grpc().call(REGRESS, &[], &request("m", "", &list(&[example(&[("b", wholes(&[2]))])])));
    refused(&two, "Name: <unknown>, Key: b, Index: 0.  Value 2 does not fit its dtype bool.");
    let running = with_columns(vec![spec("n", DType::UInt8, &[-1]), spec("f", DType::Float16, &[-1])]);
    let mut grpc = running.grpc();
    let good = |name: &str| if name == "n" { ("f", floats(&[1.0])) } else { ("n", wholes(&[1])) };
    let first = example(&[("n", wholes(&[1])), ("f", floats(&[1.0]))]);
    let mut of = |name: &'static str, feature: Option<Vec<u8>>| {
        let features: Vec<_> = feature.into_iter().map(|feature| (name, feature)).chain([good(name)]).collect();
        let answer = grpc.call(REGRESS, &[], &request("m", "", &list(&[first.clone(), example(&features)])));
        assert_eq!(answer.code, 3);
        answer.message
    };
    let place = |name: &str| format!("Name: <unknown>, Key: {name}, Index: 1.  ");
    let types =
        |found: &str, wanted: &str| format!("Data types don't match. Data type: {found} but expected type: {wanted}");
    assert_eq!(of("n", None), place("n") + "Feature: n (data type: uint8) is required but could not be found.");
    assert_eq!(
        of("f", Some(Vec::new())),
        place("f") + "Feature: f (data type: half) is required but could not be found."
    );
    assert_eq!(of("n", Some(floats(&[1.0]))), place("n") + &types("float", "uint8"));
    assert_eq!(of("f", Some(strings(&[b"1"]))), place("f") + &types("string", "half"));
    assert_eq!(of("n", Some(wholes(&[256]))), place("n") + "Value 256 does not fit its dtype uint8.");
    assert_eq!(of("n", Some(wholes(&[-1]))), place("n") + "Value -1 does not fit its dtype uint8.");
    assert_eq!(of("f", Some(floats(&[65505.0]))), place("f") + "Value 65505 does not fit its dtype float16.");
    assert_eq!(of("f", Some(wholes(&[2049]))), place("f") + "Value 2049 does not fit its dtype float16.");
    let count = "Number of int64 values != expected.  Values size: 2 but output shape: []";
    assert_eq!(of("n", Some(wholes(&[1, 2]))), place("n") + count);
    assert_eq!(of("n", Some(wholes(&[]))), place("n") + &count.replace("size: 2", "size: 0"));
}

#[test]
fn requests_that_cannot_be_are_told_so_in_tensorflow_servings_words() {
    let running = running(&parses_itself(), of_tensorflow());
    let mut grpc = running.grpc();
    let one = list(&[example(&[("a", floats(&[1.0]))])]);
    let mut ask = |path: &str, message: &[u8]| grpc.call(path, &[], message);
    refused(&ask(CLASSIFY, &request("m", "", &[])), "Input is empty.");
    refused(&ask(CLASSIFY, &request("m", "", &list_with_context(&example(&[]), &[]))), "Input is empty.");
    refused(&ask(REGRESS, &request("m", "gone", &one)), "No signature was found with the name: gone");
    let wrong = "Expected regression signature method_name to be tensorflow/serving/regress. Was: ";
    refused(&ask(REGRESS, &request("m", "", &one)), &format!("{wrong}{CLASSIFY_METHOD}"));
    let wrong = "Expected classification signature method_name to be tensorflow/serving/classify. Was: ";
    refused(&ask(CLASSIFY, &request("m", "value", &one)), &format!("{wrong}{REGRESS_METHOD}"));
    refused(&ask(CLASSIFY, &request("m", "x", &one)), &format!("{wrong}{PREDICT_METHOD}"));
    refused(&ask(CLASSIFY, &request("m", "", &one)[5..]), "Missing ModelSpec");
    refused(&ask(CLASSIFY, &request("", "", &one)), "ModelSpec has no name specified.");
    let unknown = ask(CLASSIFY, &request("n", "", &one));
    assert_eq!((unknown.code, unknown.message.as_str()), (5, "Servable not found for request: Latest(n)"));
    refused(
        &ask(REGRESS, &request("m", "x", &list(&[b"garbage".to_vec()]))),
        "Could not parse example input, value: 'garbage'",
    );
}

#[test]
fn outputs_say_whether_a_signature_classifies_or_regresses() {
    let float = |name: &str, shape: &[i64]| spec(name, DType::Float64, shape);
    let label = |name: &str, shape: &[i64]| spec(name, DType::String, shape);
    let of = |path: &str, method: &str, outputs: Vec<TensorSpec>| {
        let columns = vec![spec("a", DType::Float32, &[-1])];
        let given: Vec<(DType, Vec<usize>)> = outputs
            .iter()
            .map(|spec| (spec.dtype, spec.inner().iter().map(|dim| usize::try_from(*dim).unwrap_or(3)).collect()))
            .collect();
        let model = Model::new(move |work| {
            let output = |(dtype, inner): &(DType, Vec<usize>)| Some(zeros(*dtype, work.rows, inner));
            Ok(Prediction { outputs: given.iter().map(output).collect(), errors: Vec::new() })
        });
        let running = running(&model, vec![named("serving_default", method, columns, outputs)]);
        let answer = running.grpc().call(path, &[], &request("m", "", &list(&[example(&[("a", floats(&[1.0]))])])));
        if answer.code == 0 { format!("{:?}", classes(bytes_of(&answer.body, 1)[0])) } else { answer.message }
    };
    let pair = r#"[[("", 0.0), ("", 0.0)]]"#;
    assert_eq!(of(CLASSIFY, PREDICT_METHOD, vec![float("probabilities", &[-1, 2])]), pair);
    assert_eq!(of(CLASSIFY, PREDICT_METHOD, vec![label("label", &[-1]), float("p", &[-1, 2])]), pair);
    assert_eq!(of(CLASSIFY, CLASSIFY_METHOD, vec![label("classes", &[-1, 2])]), pair);
    assert_eq!(of(CLASSIFY, PREDICT_METHOD, vec![float("other", &[-1, 5]), float("scores", &[-1, 2])]), pair);
    let not_classify = "Expected classification signature method_name to be tensorflow/serving/classify. Was: \
                        tensorflow/serving/predict";
    assert_eq!(of(CLASSIFY, PREDICT_METHOD, vec![float("one", &[-1, 2]), float("two", &[-1, 2])]), not_classify);
    assert_eq!(of(CLASSIFY, PREDICT_METHOD, vec![float("y", &[-1])]), not_classify);
    assert_eq!(
        of(CLASSIFY, CLASSIFY_METHOD, vec![spec("n", DType::Int64, &[-1])]),
        "Expected classification signature outputs to contain at least one of \"classes\" or \"scores\". Signature was: \
         n int64[-1]"
    );
    assert_eq!(
        of(CLASSIFY, CLASSIFY_METHOD, vec![label("classes", &[-1]), float("scores", &[-1, 2])]),
        "Expected Tensor shape: [batch_size num_classes] but got [1]"
    );
    assert_eq!(
        of(CLASSIFY, CLASSIFY_METHOD, vec![spec("scores", DType::Int32, &[-1, 2])]),
        "Expected scores Tensor of DT_FLOAT. Got: DT_INT32"
    );
    assert_eq!(
        of(CLASSIFY, CLASSIFY_METHOD, vec![label("classes", &[-1, -1]), float("scores", &[-1, 2])]),
        "Tensors class and score should match in dim_size(1). Got 3 vs. 2"
    );
    assert_eq!(of(REGRESS, PREDICT_METHOD, vec![spec("n", DType::Int64, &[-1]), float("y", &[-1, 1])]), "[[]]");
    assert_eq!(
        of(REGRESS, PREDICT_METHOD, vec![float("y", &[-1]), float("z", &[-1])]),
        "Expected regression signature method_name to be tensorflow/serving/regress. Was: tensorflow/serving/predict"
    );
    assert_eq!(
        of(REGRESS, REGRESS_METHOD, vec![spec("outputs", DType::Int64, &[-1])]),
        "Expected output Tensor of DT_FLOAT.  Got: DT_INT64"
    );
    let shape = "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got ";
    assert_eq!(of(REGRESS, REGRESS_METHOD, vec![float("outputs", &[-1, 2])]), format!("{shape}[1,2]"));
    assert_eq!(of(REGRESS, REGRESS_METHOD, vec![float("outputs", &[-1, -1])]), format!("{shape}[1,3]"));
}

#[test]
fn examples_and_tensors_share_a_batch_and_the_log() {
    let gate = Arc::new(Gate::default());
    let model = Model::gated(&gate);
    let running = running(&model, vec![support::scalar_signature()]);
    running.plane.apply(vec![Change::SetLog { model: "m".to_owned(), rate: 1.0 }]).unwrap();
    let mut grpc = running.grpc();
    let first = grpc.start(support::grpc::PREDICT, &[], support::grpc::frame(&predict_x(&[0.0])));
    gate.wait_for(1);
    let second = grpc.start(support::grpc::PREDICT, &[], support::grpc::frame(&predict_x(&[2.0, 4.0])));
    let examples = list(&[example(&[("x", floats(&[6.0]))]), example(&[("x", wholes(&[8]))])]);
    let third = grpc.start(REGRESS, &[], support::grpc::frame(&request("m", "", &examples)));
    let waiting = "tidegate_queued_rows{model=\"m\",version=\"7\"}";
    eventually("both wait", || running.sample(waiting) == 4.0);
    gate.open();
    let (_, _, third) = (ok(grpc.finish(first)), ok(grpc.finish(second)), ok(grpc.finish(third)));
    assert_eq!(values(bytes_of(&third, 1)[0]), [5.0, 6.0]);
    assert_eq!(model.seen(), [vec![0, 1], vec![0, 2, 4]]);
    eventually("all is logged", || running.log_rows("written", "primary") == 5.0);
    let blocks = running.hooks.blocks.lock().unwrap();
    let mut logged: Vec<f32> = blocks.iter().flat_map(|block| support::floats(&block.inputs[0].values)).collect();
    logged.sort_by(f32::total_cmp);
    assert_eq!(logged, [0.0, 2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn rest_answers_results() {
    let running = running(&parses_itself(), of_tensorflow());
    let mut rest = running.rest();
    let (a, b) = (example(&[("a", floats(&[1.5]))]).len() as f32, example(&[]).len() as f32);
    let classified = rest.post("/v1/models/m:classify", r#"{"examples":[{"a":1.5},{}]}"#);
    let expected = format!("{{\"results\":[[[\"no\",{:?}],[\"yes\",{a:?}]],[[\"no\",{:?}],[\"yes\",{b:?}]]]}}", -a, -b);
    assert_eq!((classified.status, classified.body), (200, expected));
    assert_eq!(classified.headers.iter().find(|(name, _)| name == "content-type").unwrap().1, "application/json");
    let body = r#"{"context":{"a":1.5},"examples":[{}],"signature_name":"value"}"#;
    let regressed = rest.post("/v1/models/m/versions/7:regress", body);
    assert_eq!(regressed.body, format!("{{\"results\":[{:?}]}}", a + b));
    assert_eq!(rest.post("/v1/models/m/versions/8:regress", body).status, 404);
}

#[test]
fn rest_features_have_the_kinds_that_json_gives_them() {
    let columns =
        vec![spec("f", DType::Float32, &[-1, 2]), spec("n", DType::UInt8, &[-1]), spec("s", DType::String, &[-1])];
    let running = with_columns(columns);
    let mut rest = running.rest();
    let mut of = |features: &str| {
        let answer = rest.post("/v1/models/m:regress", &format!("{{\"examples\":[{features}]}}"));
        (answer.status, answer.body)
    };
    let ok = |body: &str| (200, body.to_owned());
    let bad = |text: &str| (400, format!("{{\"error\":\"{text}\"}}"));
    assert_eq!(of(r#"{"f":[1.5,2e0],"n":true,"s":"abc"}"#), ok(r#"{"results":[7.5]}"#));
    assert_eq!(of(r#"{"s":{"b64":"YWJjZA=="},"f":[1,2],"n":[7]}"#), ok(r#"{"results":[14.0]}"#));
    assert_eq!(of(r#"{"f":[1.5,2.5],"f":[0.5,0.5],"n":0,"s":"\u00e9"}"#), ok(r#"{"results":[3.0]}"#));
    assert_eq!(of(r#"{"f":[1.5,2],"n":1,"s":""}"#), bad("Unexpected element type in feature: f expecting type: float"));
    assert_eq!(of(r#"{"f":["a",2]}"#), bad("Unexpected element type in feature: f expecting type: bytes"));
    assert_eq!(of(r#"{"n":null}"#), bad("Feature: n has element with unexpected JSON type: Null"));
    assert_eq!(of(r#"{"n":[[1]]}"#), bad("Feature: n has element with unexpected JSON type: Array"));
    assert_eq!(of(r#"{"n":{"b":1}}"#), bad("Feature: n has element with unexpected JSON type: Object"));
    let large = "Feature: n has uint64_t element. Only int64_t is supported.";
    assert_eq!(of(r#"{"n":9223372036854775808}"#), bad(large));
    assert_eq!(of(r#"{"s":{"b64":"?"}}"#), bad("Unable to base64 decode"));
    assert_eq!(of(r#"{"f":[1.5,2.0],"n":1,"s":""}],"examples":[{}"#), ok(r#"{"results":[4.5]}"#));
    assert_eq!(of("[1]"), bad("Example must be JSON object but got JSON Array"));
    let missing =
        "Name: <unknown>, Key: n, Index: 0.  Feature: n (data type: uint8) is required but could not be found.";
    assert_eq!(of(r#"{"f":[1.5,2.5],"n":[],"s":""}"#), bad(missing));
}

#[test]
fn rest_bodies_of_a_wrong_form_are_refused_in_tensorflow_servings_words() {
    let running = running(&parses_itself(), of_tensorflow());
    let mut rest = running.rest();
    let mut of = |body: &str| {
        let answer = rest.post("/v1/models/m:classify", body);
        assert_eq!(answer.status, 400, "{}", answer.body);
        answer.body.replace("\\\"", "'")
    };
    let error = |text: &str| format!("{{\"error\":\"{text}\"}}");
    assert_eq!(of(""), error("JSON Parse error: The document is empty"));
    let missing = "When method is classify, key 'examples' is expected and was not found";
    assert_eq!(of("{}"), error(&format!("JSON Value: {{}} {missing}")));
    assert_eq!(
        of(r#"{"examples":{}}"#),
        error("JSON Value: {'examples':{}} Expecting 'examples' value to be an list/array")
    );
    assert_eq!(of(r#"{"examples":[]}"#), error("JSON Value: {'examples':[]} 'examples' value is an empty array"));
    let name = "not formatted correctly. 'signature_name' key must be a string value.";
    assert_eq!(of(r#"{"signature_name":1}"#), error(&format!("JSON Value: {{'signature_name':1}} {name}")));
    assert_eq!(of(r#"{"context":1,"examples":[{}]}"#), error("Example must be JSON object but got JSON Number"));
    assert_eq!(of(r#"{"signature_name":"gone","examples":[{}]}"#), error("No signature was found with the name: gone"));
    assert_eq!(
        of(r#"{"examples":[{}]"#),
        error("JSON Parse error: Missing a comma or } after an object member. at offset: 16")
    );
    let malformed = rest.get("/v1/models/m:classify");
    assert_eq!(malformed.body, error("Malformed request: GET /v1/models/m:classify"));
}

#[test]
fn a_request_without_rows_is_answered_without_a_model() {
    let model = Model::half_plus_two();
    let running = Running::with(&model);
    let answer = running.grpc().predict(&predict_x(&[]));
    let found = support::messages::outputs(&ok(answer))[0].1.clone();
    assert_eq!((shape_of(&found), float_values(&found)), (vec![0], vec![]));
    let rest = running.rest().predict(r#"{"inputs":[]}"#);
    assert_eq!((rest.status, rest.body.as_str()), (200, r#"{"outputs":[]}"#));
    let zeros = running.grpc().predict(&support::messages::Request::new("m").input("x", tensor(1, &[2], &[])).encode());
    assert_eq!(float_values(&support::messages::outputs(&ok(zeros))[0].1), [2.0, 2.0]);
    assert_eq!(model.seen(), [[0, 2]]);
}

#[test]
fn damaged_messages_are_refused_or_answered_but_never_fatal() {
    let running = with_columns(vec![spec("a", DType::Float32, &[-1]), spec("s", DType::String, &[-1])]);
    let good = example(&[("a", floats(&[1.0])), ("s", strings(&[b"abc"]))]);
    let messages = [
        (REGRESS, request("m", "", &list_with_context(&good, std::slice::from_ref(&good)))),
        (MULTI_INFERENCE, multi(&[("m", "", REGRESS_METHOD)], &list(std::slice::from_ref(&good)))),
        (SESSION_RUN, session("m", &[("a", float_tensor(&[1.0]))], &["y"])),
    ];
    let mut random = Random(0x0bad_5eed_1234_5678);
    let mut grpc = running.grpc();
    let (mut answered, mut failed) = (0, 0);
    for _ in 0..400 {
        let (path, message) = &messages[random.below(messages.len())];
        match grpc.call(path, &[], &random.damage(message)).code {
            0 => answered += 1,
            3 | 5 | 8 | 12 => failed += 1,
            code => panic!("{code}"),
        }
    }
    assert!(answered > 10 && failed > 100, "{answered} {failed}");
    let body = ok(grpc.call(REGRESS, &[], &messages[0].1));
    assert_eq!(values(bytes_of(&body, 1)[0]), [4.0]);
}
