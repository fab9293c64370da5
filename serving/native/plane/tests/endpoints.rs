//! Both endpoints from outside: metadata, status, health, metrics, limits, and everything that is not a proper request.
//! After each kind of abuse the plane must still answer a proper request.

use std::collections::HashSet;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::support;
use crate::support::grpc::{PREDICT, frame};
use crate::support::messages::{
    Request, bytes_of, float_tensor, float_values, outputs, predict_x, shape_of, tensor, varint_of, varints,
};
use crate::support::{
    LONG, Model, Random, Running, eventually, patience, publish, scalar_signature, settings, signature, spec,
};
use tidegate_codec::dtype::{ALL, DType};
use tidegate_codec::model_metadata::Description;
use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_codec::protobuf::{tensor as tensor_proto, wire};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::{Column, Tensor, Words};
use tidegate_codec::version_state::VersionState;
use tidegate_engine::batching::Prediction;
use tidegate_engine::serving_map::Change;
use tidegate_plane::endpoints::body::LESS;
use tidegate_plane::endpoints::grpc::methods::MODEL_STATUS;
use tidegate_plane::settings::{Patience, Settings};

fn still_serves(running: &Running) {
    let answer = running.grpc().predict(&predict_x(&[1.0, 2.0]));
    assert_eq!((answer.code, answer.message.as_str()), (0, ""));
    let found = outputs(&answer.body);
    assert_eq!((found[0].0.as_str(), shape_of(&found[0].1)), ("y", vec![2]));
    assert_eq!(float_values(&found[0].1), [2.5, 3.0]);
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).body, r#"{"predictions":[2.5]}"#);
}

#[test]
fn unknown_and_foreign_calls_are_refused() {
    let running = Running::with(&Model::half_plus_two());
    let mut grpc = running.grpc();
    let unknown = grpc.call("/some.Service/Method", &[], b"");
    assert_eq!((unknown.code, unknown.message.as_str()), (12, "unknown method /some.Service/Method"));
    let compressed = grpc.start(PREDICT, &[("grpc-encoding", "br")], vec![1, 0, 0, 0, 0]);
    assert_eq!(grpc.finish(compressed).code, Code::Unimplemented as i32);
    let empty = grpc.start(PREDICT, &[], Vec::new());
    assert_eq!(grpc.finish(empty).message, "the call ended before its message");
    let cut = grpc.start(PREDICT, &[], frame(&predict_x(&[1.0]))[..12].to_vec());
    assert_eq!(grpc.finish(cut).code, Code::InvalidArgument as i32);
    let malformed = grpc.predict(&[0x0a, 0xff, 0xff]);
    assert_eq!(malformed.code, Code::InvalidArgument as i32);
    assert!(malformed.message.starts_with("malformed protobuf"), "{}", malformed.message);
    still_serves(&running);
}

#[test]
fn compressed_requests_are_answered_through_both_endpoints() {
    let running = Running::with(&Model::half_plus_two());
    let gzip = |data: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    };
    let mut grpc = running.grpc();
    let mut framed = frame(&gzip(&predict_x(&[1.0])));
    framed[0] = 1;
    let call = grpc.start(PREDICT, &[("grpc-encoding", "gzip")], framed);
    let answer = grpc.finish(call);
    assert_eq!((answer.code, answer.message.as_str()), (0, ""));
    assert_eq!(float_values(&outputs(&answer.body)[0].1), [2.5]);
    let mut rest = running.rest();
    let mut post = |encoding: &str, body: &[u8]| {
        rest.send("POST", "/v1/models/m:predict", &format!("content-encoding: {encoding}\r\n"), body);
        rest.receive()
    };
    assert_eq!(post("gzip", &gzip(br#"{"instances":[1]}"#)).body, r#"{"predictions":[2.5]}"#);
    assert_eq!(post("gzip", b"plain").status, 400);
    assert_eq!(post("br", b"").status, 415);
    assert_eq!(post("gzip", &gzip(&vec![b' '; (1 << 20) + 1])).status, 413);
    still_serves(&running);
}

#[test]
fn an_answer_does_not_wait_for_what_follows_its_request() {
    let running = Running::with(&Model::half_plus_two());
    let body = r#"{"instances":[1]}"#;
    let whole =
        format!("POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for tail in ["\r\n", "POST /v1/mod", "garbage without end\r\n\r\n"] {
        let mut rest = running.rest();
        rest.stream.write_all(format!("{whole}{tail}").as_bytes()).unwrap();
        assert_eq!(rest.receive().body, r#"{"predictions":[2.5]}"#, "followed by {tail:?}");
    }
    let mut rest = running.rest();
    rest.stream.write_all(b"GET /a b HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(rest.receive().status, 400, "a request that makes no sense is told so");
}

#[test]
fn sizes_beyond_the_limit_are_named_with_it() {
    let running = Running::with(&Model::half_plus_two());
    let mut grpc = running.grpc();
    let call = grpc.start(PREDICT, &[], frame(&vec![0; (1 << 20) + 1]));
    let large = grpc.finish(call);
    assert_eq!(large.code, Code::ResourceExhausted as i32);
    assert_eq!(
        large.message,
        format!("the message of 1048577 bytes is larger than the limit of 1048576 bytes: {LESS}")
    );
    let mut rest = running.rest();
    rest.stream.write_all(b"POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: 9999999\r\n\r\n").unwrap();
    let large = rest.receive();
    assert_eq!(large.status, 413);
    assert!(
        large.body.contains(&format!("9999999 bytes is larger than the limit of 1048576 bytes: {LESS}")),
        "{}",
        large.body
    );
    let mut rest = running.rest();
    rest.stream
        .write_all(b"POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    let chunk = [&b"100000\r\n"[..], &[b' '; 1 << 20], b"\r\n2\r\n  \r\n0\r\n\r\n"].concat();
    let _ = rest.stream.write_all(&chunk);
    assert_eq!(rest.receive().status, 413);
    still_serves(&running);
}

#[test]
fn large_messages_within_the_limit_go_both_ways() {
    let running = Running::with(&Model::half_plus_two());
    let values: Vec<f32> = (0..250_000).map(|value| value as f32).collect();
    let answer = running.grpc().predict(&predict_x(&values));
    assert_eq!(answer.code, 0, "{}", answer.message);
    assert_eq!(float_values(&outputs(&answer.body)[0].1).len(), values.len());
    let wide = signature(vec![spec("x", DType::Float32, &[-1, -1])], vec![spec("y", DType::Float32, &[-1, -1])]);
    running.plane.apply(vec![publish("w", 1, &Model::half_plus_two(), wide)]).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let message = tensor(1, &[1, 250_000], &support::messages::content(&bytes));
    let answer = running.grpc().predict(&Request::new("w").input("x", message).encode());
    assert_eq!(answer.code, 0, "{}", answer.message);
    let found = float_values(&outputs(&answer.body)[0].1);
    assert!(found.iter().zip(&values).all(|(found, value)| *found == value * 0.5 + 2.0) && found.len() == values.len());
}

#[test]
fn every_type_comes_back_in_its_value_field() {
    for dtype in ALL {
        let same = signature(vec![spec("x", dtype, &[-1])], vec![spec("y", dtype, &[-1])]);
        let identity = Model::new(|work| {
            let output = Tensor { column: Column::clone(&work.columns[0]), shape: vec![work.rows] };
            Ok(Prediction { outputs: vec![Some(output)], errors: Vec::new() })
        });
        let running = Running::start(&settings());
        running.plane.apply(vec![publish("m", 1, &identity, same)]).unwrap();
        let field = tensor_proto::value_field(dtype);
        let sent = match dtype {
            DType::String => {
                let mut fields = Vec::new();
                wire::put_bytes(&mut fields, field, b"a");
                wire::put_bytes(&mut fields, field, b"\xff");
                fields
            }
            DType::Float32 | DType::Float64 | DType::Complex64 | DType::Complex128 => {
                let mut fields = Vec::new();
                wire::put_bytes(&mut fields, field, &[1; 32][..2 * dtype.size()]);
                fields
            }
            DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => varints(field, &[-5, 100]),
            _ => varints(field, &[1, 0]),
        };
        let message = tensor(dtype.tensorflow(), &[2], &sent);
        let answer = running.grpc().predict(&Request::new("m").input("x", message.clone()).encode());
        assert_eq!(answer.code, 0, "{dtype:?} {}", answer.message);
        let returned = outputs(&answer.body)[0].1.clone();
        assert_eq!(varint_of(&returned, 1), dtype.tensorflow());
        assert_eq!(bytes_of(&returned, field), bytes_of(&message, field), "{dtype:?}");
    }
}

#[test]
fn only_the_wanted_outputs_come_back() {
    let both = signature(
        vec![spec("x", DType::Float32, &[-1])],
        vec![spec("y", DType::Float32, &[-1]), spec("n", DType::UInt8, &[-1])],
    );
    let model = Model::new(|work| {
        let mut words = Words::default();
        words.grow(work.rows).fill(7);
        let n = Tensor { column: Column::Raw(words), shape: vec![work.rows] };
        Ok(Prediction { outputs: vec![Some(support::half_plus_two(work)), Some(n)], errors: Vec::new() })
    });
    let running = Running::start(&settings());
    running.plane.apply(vec![publish("m", 1, &model, both)]).unwrap();
    let names = |request: Request| {
        let answer = running.grpc().predict(&request.input("x", float_tensor(&[1.0])).encode());
        outputs(&answer.body).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(Request::new("m")), ["y", "n"]);
    assert_eq!(names(Request::new("m").only("n")), ["n"]);
    assert_eq!(names(Request::new("m").only("n").only("y")), ["n", "y"]);
    let rest = running.rest().predict(r#"{"instances":[1]}"#);
    assert_eq!(rest.body, r#"{"predictions":[{"y":2.5,"n":7}]}"#);
}

#[test]
fn metadata_is_answered_from_the_signatures() {
    let running = Running::with(&Model::half_plus_two());
    let mut grpc = running.grpc();
    let mut ask = |fields: &[&str]| {
        let mut message = Vec::new();
        wire::put_bytes(&mut message, 1, &Request::new("m").spec);
        fields.iter().for_each(|field| wire::put_bytes(&mut message, 2, field.as_bytes()));
        grpc.call("/tensorflow.serving.PredictionService/GetModelMetadata", &[], &message)
    };
    assert_eq!(ask(&[]).message, "GetModelMetadataRequest must specify at least one metadata_field");
    assert_eq!(ask(&["graph"]).message, "Metadata field graph is not supported");
    let answer = ask(&["signature_def"]);
    assert_eq!(answer.headers["x-tidegate-version"], "1");
    let entry = bytes_of(&answer.body, 2)[0];
    assert_eq!(bytes_of(entry, 1), [b"signature_def"]);
    let any = bytes_of(entry, 2)[0];
    assert_eq!(bytes_of(any, 1), [b"type.googleapis.com/tensorflow.serving.SignatureDefMap"]);
    let signature = bytes_of(bytes_of(bytes_of(any, 2)[0], 1)[0], 2)[0];
    let input = bytes_of(bytes_of(signature, 1)[0], 2)[0];
    assert_eq!((varint_of(input, 2), bytes_of(signature, 3)), (1, vec![&b"tensorflow/serving/predict"[..]]));
    let over_rest = running.rest().get("/v1/models/m/metadata");
    assert_eq!(over_rest.status, 200);
    assert!(over_rest.body.starts_with(r#"{"model_spec":{"name":"m","signature_name":"","version":"1"},"metadata""#));
    assert!(over_rest.body.contains(r#""x":{"dtype":"DT_FLOAT","tensor_shape":{"dim":[{"size":"-1","name":""}]"#));
    assert_eq!(running.rest().get("/v1/models/n/metadata").status, 404);
}

#[test]
fn metadata_of_a_model_that_describes_itself_is_answered_as_it_is() {
    let running = Running::start(&settings());
    let mut change = publish("m", 1, &Model::half_plus_two(), scalar_signature());
    if let Change::Publish(publish) = &mut change {
        publish.description = Some(Description { message: b"its map".to_vec(), json: br#"{"its":"map"}"#.to_vec() });
    }
    running.plane.apply(vec![change]).unwrap();
    let mut message = Vec::new();
    wire::put_bytes(&mut message, 1, &Request::new("m").spec);
    wire::put_bytes(&mut message, 2, b"signature_def");
    let answer = running.grpc().call("/tensorflow.serving.PredictionService/GetModelMetadata", &[], &message);
    let any = bytes_of(bytes_of(&answer.body, 2)[0], 2)[0];
    assert_eq!(bytes_of(any, 2), [b"its map"]);
    assert_eq!(
        running.rest().get("/v1/models/m/metadata").body.trim(),
        r#"{"model_spec":{"name":"m","signature_name":"","version":"1"},"metadata":{"signature_def":{"signature_def":{"its":"map"}}}}"#
    );
}

#[test]
fn rare_calls_are_asked_of_python() {
    let running = Running::with(&Model::half_plus_two());
    let mut grpc = running.grpc();
    for method in tidegate_plane::control::METHODS {
        running.hooks.answers.lock().unwrap().push(Ok(b"answer".to_vec()));
        assert_eq!(grpc.call(method, &[], b"question").body, b"answer");
        assert_eq!(running.hooks.asked.lock().unwrap().pop().unwrap(), (method.to_owned(), b"question".to_vec()));
    }
    let nothing = grpc.call(tidegate_plane::control::METHODS[0], &[], b"");
    assert_eq!((nothing.code, nothing.message.as_str()), (5, "nothing is known of that"));
}

#[test]
fn a_models_states_are_those_that_were_set_last() {
    let running = Running::with(&Model::half_plus_two());
    let state = |version, state, code, text: &str| VersionState { version, state, status: Status::new(code, text) };
    running.plane.set_states("m", vec![state(3, 20, Code::Ok, "")]);
    running.plane.set_states("m", vec![state(1, 30, Code::Ok, ""), state(0, 50, Code::DataLoss, "cut \"short\"")]);
    let labels = std::collections::HashMap::from([("stable".to_owned(), 1)]);
    running.plane.apply(vec![Change::SetLabels { model: "m".to_owned(), labels, waiting: HashSet::new() }]).unwrap();
    let mut grpc = running.grpc();
    let mut ask = |request: Request| {
        let mut message = Vec::new();
        wire::put_bytes(&mut message, 1, &request.spec);
        let answer = grpc.call(MODEL_STATUS, &[], &message);
        let states = bytes_of(&answer.body, 1).into_iter().map(|one| {
            let status = bytes_of(one, 3)[0];
            (varint_of(one, 1), varint_of(one, 2), varint_of(status, 1), bytes_of(status, 2).concat())
        });
        (answer.code, answer.message, states.collect::<Vec<_>>())
    };
    let of = |code, text: &str, states: &[(u64, u64, u64, &[u8])]| {
        let states = states.iter().map(|(version, state, code, text)| (*version, *state, *code, text.to_vec()));
        (code, text.to_owned(), states.collect::<Vec<_>>())
    };
    let one: (u64, u64, u64, &[u8]) = (1, 30, 0, b"");
    let zero: (u64, u64, u64, &[u8]) = (0, 50, 15, b"cut \"short\"");
    assert_eq!(ask(Request::new("m")), of(0, "", &[one, zero]));
    assert_eq!(ask(Request::new("m").version(0)), of(0, "", &[zero]));
    assert_eq!(ask(Request::new("m").label("stable")), of(0, "", &[one]));
    assert_eq!(ask(Request::new("m").label("gold")), of(3, "Unrecognized servable version label: gold", &[]));
    assert_eq!(ask(Request::new("m").version(3)), of(5, "Could not find version 3 of model m", &[]));
    assert_eq!(ask(Request::new("n").label("stable")), of(5, "Could not find any versions of model n", &[]));
    let nobody = grpc.call(MODEL_STATUS, &[], b"");
    assert_eq!((nobody.code, nobody.message.as_str()), (3, "Missing ModelSpec"));
    let mut rest = running.rest();
    let answer = rest.get("/v1/models/m/labels/stable");
    let compact: String = answer.body.split_whitespace().collect();
    let entry = r#"{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":""}}"#;
    assert_eq!((answer.status, compact), (200, format!("{{\"model_version_status\":[{entry}]}}")));
    let ended = rest.get("/v1/models/m/versions/0").body;
    assert!(ended.contains(r#""error_code": "DATA_LOSS""#) && ended.contains(r#""cut \"short\"""#), "{ended}");
    let missing = rest.get("/v1/models/n");
    assert_eq!((missing.status, missing.body.as_str()), (404, r#"{"error":"Could not find any versions of model n"}"#));
    running.plane.set_states("m", Vec::new());
    assert_eq!(rest.get("/v1/models/m").status, 404);
}

#[test]
fn health_and_metrics() {
    let running = Running::with(&Model::half_plus_two());
    let mut rest = running.rest();
    let (root, live) = (rest.get("/"), rest.get("/v2/health/live"));
    assert_eq!((root.status, root.body.as_str()), (200, r#"{"status":"alive"}"#));
    assert_eq!((live.status, live.body.as_str()), (200, r#"{"live":true}"#));
    let starting = rest.get("/v2/health/ready");
    let expected = r#"{"ready":false,"error":"the server is starting"}"#;
    assert_eq!((starting.status, starting.body.as_str()), (503, expected));
    running.plane.set_ready(true, "");
    assert_eq!(rest.get("/v2/health/ready").body, r#"{"ready":true}"#);
    running.plane.set_ready(true, "m is \"stuck\"");
    assert_eq!(rest.get("/v2/health/ready").body, r#"{"ready":true,"reason":"m is \"stuck\""}"#);
    running.plane.set_ready(false, "reloading");
    assert_eq!(rest.get("/v2/health/ready").status, 503);
    rest.predict(r#"{"instances":[1]}"#);
    rest.predict(r#"{"instances":["a"]}"#);
    rest.post("/v1/models/n:predict", r#"{"instances":[1]}"#);
    let text = rest.get("/metrics").body;
    for line in [
        "# TYPE tidegate_requests_total counter",
        "tidegate_requests_total{endpoint=\"rest\",model=\"m\",version=\"1\",status=\"OK\"} 1",
        "tidegate_requests_total{endpoint=\"rest\",model=\"m\",version=\"1\",status=\"INVALID_ARGUMENT\"} 1",
        "tidegate_requests_total{endpoint=\"rest\",model=\"\",version=\"\",status=\"NOT_FOUND\"} 1",
        "# TYPE tidegate_request_seconds histogram",
        "tidegate_batch_rows_count{model=\"m\",version=\"1\"} 1",
        "tidegate_connections{endpoint=\"rest\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    let other = rest.get("/nowhere");
    assert!(other.status == 404 && other.body.contains("GET /metrics"), "{}", other.body);

    assert_eq!(rest.get("/v1/models/m:predict").status, 400);
}

#[test]
fn numbers_are_bytes_where_the_settings_say_so() {
    let running = Running::start(&Settings { numbers: Numbers::AsContent, ..settings() });
    running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let answer = running.grpc().predict(&predict_x(&[1.0, 2.0]));
    let (_, tensor) = outputs(&answer.body).remove(0);
    let content: Vec<u8> = [2.5f32, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!((bytes_of(&tensor, 4), bytes_of(&tensor, 5)), (vec![&content[..]], Vec::new()));
}

#[test]
fn pages_of_any_origin_read_answers_where_that_is_allowed() {
    let running = Running::start(&Settings { rest_cors: true, ..settings() });
    running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let mut rest = running.rest();
    let allowed = |answer: &support::rest::Answer| {
        let names = ["access-control-allow-origin", "access-control-allow-methods", "access-control-allow-headers"];
        names.map(|name| answer.header(name).map(str::to_owned))
    };
    let all = ["*", "POST, GET", "Content-Type"].map(|value| Some(value.to_owned()));
    let answer = rest.predict(r#"{"instances":[1]}"#);
    assert_eq!((answer.status, allowed(&answer)), (200, all.clone()));
    let refused = rest.predict("{}");
    assert_eq!((refused.status, allowed(&refused)), (400, all.clone()));
    rest.send("OPTIONS", "/v1/models/m:predict", "origin: https://page\r\n", b"");
    let asked = rest.receive();
    assert_eq!((asked.status, asked.body.as_str(), allowed(&asked)), (200, "", all));
    rest.send("OPTIONS", "/v1/models/m:predict", "origin: null\r\n", b"");
    let file = rest.receive();
    assert_eq!((file.status, file.body.contains("from origin \\\"null\\\"")), (400, true), "{}", file.body);
    rest.send("OPTIONS", "/v1/models/m:predict", "", b"");
    let no_page = rest.receive();
    assert_eq!((no_page.status, no_page.header("allow")), (200, Some("OPTIONS, POST")), "{}", no_page.body);
    rest.send("OPTIONS", "/", "", b"");
    assert_eq!(rest.receive().status, 200, "as HAProxy asks for health");
    let closed = Running::with(&Model::half_plus_two());
    let mut rest = closed.rest();
    assert_eq!(allowed(&rest.predict(r#"{"instances":[1]}"#)), [None, None, None]);
    rest.send("OPTIONS", "/v1/models/m:predict", "origin: https://page\r\n", b"");
    let methods = rest.receive();
    assert_eq!((methods.status, allowed(&methods)), (200, [None, None, None]));
}

#[test]
fn metrics_have_one_more_path_where_the_settings_name_one() {
    let running = Running::start(&Settings { metrics_path: Some("/prometheus".to_owned()), ..settings() });
    let mut rest = running.rest();
    for path in ["/prometheus", "/metrics"] {
        assert!(rest.get(path).body.contains("tidegate_connections{endpoint=\"rest\"} 1"), "{path}");
    }
    assert_eq!(rest.post("/prometheus", "{}").status, 404);
    rest.send("OPTIONS", "/prometheus", "", b"");
    let methods = rest.receive();
    assert_eq!((methods.status, methods.header("allow")), (200, Some("GET, HEAD, OPTIONS")), "{}", methods.body);
    assert_eq!(running.rest().get("/prometheus/").status, 404);
}

#[test]
fn a_place_that_becomes_free_is_taken() {
    let running = Running::start(&Settings { max_connections: 2, ..settings() });
    running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let (mut one, mut two) = (running.rest(), running.rest());
    assert_eq!((one.get("/v2/health/live").status, two.get("/v2/health/live").status), (200, 200));
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 503);
    assert_eq!(running.sample("tidegate_refused_connections_total{endpoint=\"rest\"}"), 1.0);
    drop(one);
    eventually("its place is free", || running.sample("tidegate_connections{endpoint=\"rest\"}") == 1.0);
    assert_eq!(running.rest().predict(r#"{"instances":[1]}"#).status, 200);
}

#[test]
fn slow_heads_and_slow_bodies_are_given_up() {
    let short = Settings {
        patience: Patience { header: Duration::from_millis(500), ..patience() },
        request_timeout: Duration::from_millis(100),
        ..settings()
    };
    let running = Running::start(&short);
    running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
    let mut head = running.rest();
    head.stream.write_all(b"POST /v1/models/m:pre").unwrap();
    let mut body = running.rest();
    body.stream
        .write_all(b"POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n\r\n{\"inst")
        .unwrap();
    let mut preface = running.rest();
    preface.stream = TcpStream::connect(running.plane.grpc_address().unwrap()).unwrap();
    preface.stream.write_all(b"PRI * HTTP/2.0\r\n").unwrap();
    let late = body.receive();
    assert_eq!((late.status, late.body.contains("whole body")), (504, true), "{}", late.body);
    assert!(head.is_closed());
    eventually("the half preface is given up", || running.sample("tidegate_connections{endpoint=\"grpc\"}") == 0.0);
    running.plane.limits().set(1 << 20, 256, LONG).unwrap();
    still_serves(&running);
}

#[test]
fn a_slow_grpc_message_is_given_up_at_its_deadline() {
    let running = Running::with(&Model::half_plus_two());
    let grpc = running.grpc();
    let address = running.plane.grpc_address().unwrap();
    let code = grpc.runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (sender, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(format!("http://t{PREDICT}"))
            .header("content-type", "application/grpc")
            .header("grpc-timeout", "50m")
            .body(())
            .unwrap();
        let (response, mut body) = sender.ready().await.unwrap().send_request(request, false).unwrap();
        body.send_data(frame(&predict_x(&[1.0]))[..9].to_vec().into(), false).unwrap();
        let response = tokio::time::timeout(LONG, response).await.unwrap().unwrap();
        response.headers()["grpc-status"].to_str().unwrap().to_owned()
    });
    assert_eq!(code, "4");
    still_serves(&running);
}

#[test]
fn garbage_on_the_ports_harms_nobody() {
    let running = Running::with(&Model::half_plus_two());
    let mut random = Random(17);
    let http =
        b"POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: 17\r\n\r\n{\"instances\":[1]}".to_vec();
    let preface =
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9, 1, 5, 0, 0, 0, 1]].concat();
    for _ in 0..300 {
        for (address, bytes) in
            [(running.plane.rest_address().unwrap(), &http), (running.plane.grpc_address().unwrap(), &preface)]
        {
            let mut socket = TcpStream::connect(address).unwrap();
            let _ = socket.write_all(&random.damage(bytes));
        }
    }
    let message = predict_x(&[1.0]);
    let mut grpc = running.grpc();
    for _ in 0..2000 {
        let answer = grpc.predict(&random.damage(&message));
        assert_ne!(answer.code, Code::Internal as i32, "{}", answer.message);
    }
    still_serves(&running);
    eventually("all connections are gone", || running.sample("tidegate_connections{endpoint=\"rest\"}") == 0.0);
}
