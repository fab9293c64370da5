//! Who is let in on the data ports: by the head of a request, before its body, and for the models of its token.

use std::sync::Arc;

use crate::support::{Model, Running, publish, scalar_signature, settings};
use sha2::{Digest, Sha256};
use tidegate_codec::open_inference::extensions;
use tidegate_plane::control;
use tidegate_plane::endpoints::grpc::{health, infer_methods, methods, reflection};
use tidegate_plane::security::access::{Access, Caller, TokenLine};
use tidegate_plane::settings::{Security, Settings};

const UNAUTHENTICATED: i32 = 16;
const DENIED: i32 = 7;
const ANNA: (&str, &str) = ("authorization", "Bearer anna");
const OPERATOR: (&str, &str) = ("authorization", "bearer operator");

fn token(name: &str, role: &str, models: &str) -> TokenLine {
    let sha256 = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    (sha256, Caller { name: name.to_owned(), role: role.to_owned(), models: vec![models.to_owned()] }, None)
}

/// Models `m` and `other`; `anna` may ask models whose names begin with `m`, `operator` may do everything.
fn guarded() -> Running {
    let access = Access::new(vec![token("anna", "predict", "m*"), token("operator", "operate", "*")], Vec::new());
    let security = Security { tls: None, access: Some(Arc::new(access.expect("roles and patterns that there are"))) };
    let running = Running::start(&Settings { security, ..settings() });
    let model = Model::half_plus_two();
    let both = ["m", "other"].map(|name| publish(name, 1, &model, scalar_signature()));
    running.plane.apply(both.into()).expect("two versions");
    running
}

fn rest_status(running: &Running, method: &str, path: &str, token: &str) -> u16 {
    let mut client = running.rest();
    let authorization = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    client.send(method, path, &authorization, br#"{"instances": [1.0]}"#);
    client.receive().status
}

/// A message whose first field is this name, or a message whose first field is it.
fn naming(model: &str, depth: usize) -> Vec<u8> {
    (0..=depth).fold(model.as_bytes().to_vec(), |inner, _| [&[10, inner.len() as u8], &inner[..]].concat())
}

#[test]
fn a_stranger_is_refused_before_the_body_comes() {
    let running = guarded();
    let mut client = running.rest();
    use std::io::Write;
    let head = "POST /v1/models/m:predict HTTP/1.1\r\nhost: t\r\ncontent-length: 900000\r\n\r\n";
    client.stream.write_all(head.as_bytes()).unwrap();
    let answer = client.receive();
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")));
    assert!(answer.body.contains("Authorization: Bearer TOKEN"), "{}", answer.body);
    assert!(client.is_closed());
    let mut client = running.grpc();
    let (call, _body) = client.open_ended(methods::PREDICT, &[], vec![0, 0, 0]);
    let answer = client.finish(call);
    assert_eq!(answer.code, UNAUTHENTICATED, "{}", answer.message);
}

#[test]
fn without_a_token_only_health_is_answered() {
    let running = guarded();
    let own = methods::METHODS.into_iter().chain(control::METHODS).chain(reflection::METHODS);
    let own = own.chain(["/unknown/Method"]);
    let inference =
        infer_methods::METHODS.map(|(name, _)| name).into_iter().chain(extensions::METHODS.map(|(name, _)| name));
    let inference = inference.map(|name| format!("/{}/{name}", infer_methods::SERVICE));
    let all = own.map(str::to_owned).chain(inference).chain([health::CHECK.to_owned()]);
    let open: Vec<String> = all.filter(|path| running.grpc().call(path, &[], &[]).code != UNAUTHENTICATED).collect();
    let service = "/inference.GRPCInferenceService/";
    assert_eq!(open, [format!("{service}ServerLive"), format!("{service}ServerReady"), health::CHECK.to_owned()]);
    for (method, path, status) in [
        ("GET", "/", 200),
        ("GET", "/v2/health/live", 200),
        ("GET", "/v2/health/ready", 503),
        ("GET", "/metrics", 401),
        ("GET", "/v2", 401),
        ("GET", "/openapi.json", 401),
        ("GET", "/v1/models/m", 401),
        ("GET", "/nowhere", 401),
        ("POST", "/v2/repository/index", 401),
    ] {
        assert_eq!(rest_status(&running, method, path, ""), status, "{path}");
    }
    assert!(
        running.sample("tidegate_requests_total{endpoint=\"rest\",model=\"\",version=\"\",status=\"UNAUTHENTICATED\"}")
            >= 5.0
    );
}

#[test]
fn a_token_is_for_its_models_in_every_method() {
    let running = guarded();
    let service = infer_methods::SERVICE;
    let deep = [(methods::MULTI_INFERENCE, 2)];
    let spec = methods::METHODS.into_iter().filter(|path| *path != methods::MULTI_INFERENCE).map(|path| (path, 1));
    let flat = ["ModelInfer", "ModelReady", "ModelMetadata"].map(|name| format!("/{service}/{name}"));
    let about: Vec<(&str, usize)> = spec.chain(deep).chain(flat.iter().map(|path| (path.as_str(), 0))).collect();
    for (path, depth) in about {
        let mut client = running.grpc();
        // Some say what of the model they want.
        let wanted: &[u8] = match path {
            methods::SESSION_RUN => b"\x1a\x01y",
            methods::METADATA => b"\x12\x0dsignature_def",
            _ => b"",
        };
        let [own, other] = ["m", "other"].map(|model| [&naming(model, depth), wanted].concat());
        assert_ne!(client.call(path, &[ANNA], &own).code, DENIED, "{path}");
        let answer = client.call(path, &[ANNA], &other);
        assert_eq!(answer.code, DENIED, "{path}: {}", answer.message);
        assert!(answer.message.contains("token 'anna' is for models m*"), "{}", answer.message);
        assert_ne!(client.call(path, &[OPERATOR], &other).code, DENIED, "{path}");
    }
    for path in ["/v1/models/NAME", "/v1/models/NAME/metadata", "/v2/models/NAME", "/v2/models/NAME/ready"] {
        assert_eq!(rest_status(&running, "GET", &path.replace("NAME", "other"), "anna"), 403, "{path}");
        assert_ne!(rest_status(&running, "GET", &path.replace("NAME", "m"), "anna"), 403, "{path}");
    }
    for path in ["/v1/models/NAME:predict", "/v1/models/NAME:classify", "/v2/models/NAME/infer"] {
        assert_eq!(rest_status(&running, "POST", &path.replace("NAME", "other"), "anna"), 403, "{path}");
        assert_ne!(rest_status(&running, "POST", &path.replace("NAME", "m"), "anna"), 403, "{path}");
    }
    assert_eq!(rest_status(&running, "POST", "/v1/models/m:predict", "anna"), 200);
}

#[test]
fn a_description_has_the_models_of_its_token() {
    let running = guarded();
    let mut client = running.rest();
    let mut paths = |token: &str| {
        client.send("GET", "/openapi.json", &format!("authorization: Bearer {token}\r\n"), b"");
        let body = client.receive().body;
        assert!(body.contains(r#""security":[{"token":[]}]"#), "{body}");
        ["m", "other"].map(|model| body.contains(&format!("\"/v1/models/{model}:predict\"")))
    };
    assert_eq!((paths("anna"), paths("operator")), ([true, false], [true, true]));
}

#[test]
fn what_concerns_all_models_needs_a_role_and_all_of_them() {
    let running = guarded();
    assert_eq!(rest_status(&running, "GET", "/metrics", "anna"), 403);
    assert_eq!(rest_status(&running, "GET", "/metrics", "operator"), 200);
    let reload = control::METHODS[0];
    assert_eq!(running.grpc().call(reload, &[ANNA], &[]).code, DENIED);
    assert_ne!(running.grpc().call(reload, &[OPERATOR], &[]).code, DENIED);
}

#[test]
fn who_may_ask_changes_while_the_plane_runs() {
    let running = guarded();
    assert_eq!(rest_status(&running, "POST", "/v1/models/m:predict", "bert"), 401);
    running.plane.set_access(Access::new(vec![token("bert", "predict", "*")], Vec::new()).unwrap()).unwrap();
    assert_eq!(rest_status(&running, "POST", "/v1/models/m:predict", "bert"), 200);
    assert_eq!(rest_status(&running, "POST", "/v1/models/m:predict", "anna"), 401);
    let open = Running::start(&settings());
    assert!(open.plane.set_access(Access::default()).unwrap_err().contains("without access control"));
}
