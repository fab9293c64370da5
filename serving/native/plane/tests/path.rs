//! REST paths as TensorFlow Serving reads them.

use tidegate_codec::open_inference::extensions::Elsewhere;
use tidegate_plane::endpoints::rest::path::{RegionCall, Route, Target, parse};

fn target_of(name: &str, version: Option<i64>, label: Option<&str>) -> Target {
    Target { name: name.to_owned(), version, label: label.map(str::to_owned) }
}

#[test]
fn reads_the_paths_of_tensorflow_serving() {
    let predict = |path| parse("POST", path).unwrap();
    assert_eq!(predict("/v1/models/m:predict"), Route::Predict(target_of("m", None, None)));
    assert_eq!(predict("/V1/Models/M/Versions/12:Predict"), Route::Predict(target_of("M", Some(12), None)));
    assert_eq!(predict("/v1/models/m/labels/stable:predict"), Route::Predict(target_of("m", None, Some("stable"))));
    assert_eq!(predict("/v1/models/a%20b:predict"), Route::Predict(target_of("a b", None, None)));
    assert_eq!(predict("/v1/models/a%2Fb%3ac:predict"), Route::Predict(target_of("a/b:c", None, None)));
    assert_eq!(predict("/v1/models/m/labels/a%2fb:predict"), Route::Predict(target_of("m", None, Some("a/b"))));
    assert_eq!(parse("GET", "/v1/models/m").unwrap(), Route::Status(target_of("m", None, None)));
    assert_eq!(
        parse("GET", "/v1/models/m/versions/1/metadata").unwrap(),
        Route::Metadata(target_of("m", Some(1), None))
    );
    assert_eq!(parse("GET", "/v2/health/live").unwrap(), Route::Live);
    assert_eq!((parse("GET", "/").unwrap(), parse("POST", "/").unwrap()), (Route::Alive, Route::Unknown));
    let ready = |path| parse("GET", path).unwrap();
    assert_eq!(ready("/v2/models/m/ready"), Route::ModelReady(target_of("m", None, None)));
    assert_eq!(ready("/v2/models/m/versions/3/ready"), Route::ModelReady(target_of("m", Some(3), None)));
    assert_eq!(parse("GET", "/other").unwrap(), Route::Unknown);
}

#[test]
fn reads_the_paths_of_the_open_inference_protocol() {
    let (get, post) = (|path| parse("GET", path).unwrap(), |path| parse("POST", path).unwrap());
    assert_eq!((get("/v2"), get("/v2/")), (Route::ServerMetadata, Route::ServerMetadata));
    assert_eq!(get("/v2/models/m"), Route::InferMetadata(target_of("m", None, None)));
    assert_eq!(get("/v2/models/m/versions/3"), Route::InferMetadata(target_of("m", Some(3), None)));
    assert_eq!(post("/v2/models/a%2Fb/infer"), Route::Infer(target_of("a/b", None, None)));
    assert_eq!(post("/v2/models/m/versions/3/infer"), Route::Infer(target_of("m", Some(3), None)));
    for path in [
        "/v2/models/m/labels/stable/infer",
        "/v2/models/m/versions/stable/infer",
        "/v2/models/m/versions/st%61ble/infer",
    ] {
        assert_eq!(post(path), Route::Infer(target_of("m", None, Some("stable"))));
    }
    assert_eq!(post("/v2/models/m/generate"), Route::Generate(target_of("m", None, None)));
    assert_eq!(post("/v2/models/m/versions/3/generate_stream"), Route::GenerateStream(target_of("m", Some(3), None)));
    assert_eq!(get("/v2/models/m/versions/v2"), Route::InferMetadata(target_of("m", None, Some("v2"))));
    assert_eq!(post("/v2/repository/index"), Route::RepositoryIndex);
    assert_eq!(post("/v2/repository/models/m/load"), Route::Elsewhere(Elsewhere::Loading));
    let region = |name: &str| name.to_owned();
    assert_eq!(
        post("/v2/systemsharedmemory/region/r%2Fa/register"),
        Route::SharedMemory(RegionCall::Register(region("r/a")))
    );
    assert_eq!(
        post("/v2/systemsharedmemory/region/r/unregister"),
        Route::SharedMemory(RegionCall::Unregister(region("r")))
    );
    assert_eq!(post("/v2/systemsharedmemory/unregister"), Route::SharedMemory(RegionCall::Unregister(region(""))));
    assert_eq!(get("/v2/systemsharedmemory/status"), Route::SharedMemory(RegionCall::Status(region(""))));
    assert!(parse("POST", "/v2/systemsharedmemory/register").is_err());
    assert_eq!(get("/v2/cudasharedmemory/status"), Route::DeviceMemory(RegionCall::Status(region(""))));
    assert_eq!(get("/v2/logging"), Route::Elsewhere(Elsewhere::Log));
    assert_eq!(post("/v2/models/m/trace/setting"), Route::Elsewhere(Elsewhere::Trace));
    assert_eq!((post("/v2/models/m"), post("/v2/models/m/explain")), (Route::Unknown, Route::Unknown));
    assert_eq!(parse("DELETE", "/v2/models/m").unwrap(), Route::Unknown);
    assert_eq!(get("/v2/models"), Route::ReadyModels);
    for (method, path) in [("POST", "/v2/models/infer"), ("POST", "/v2/models/m/versions//infer")] {
        assert!(parse(method, path).is_err(), "{method} {path}");
    }
}

#[test]
fn a_slash_at_the_end_changes_nothing_in_the_open_inference_protocol() {
    for (method, path) in [
        ("GET", "/v2"),
        ("GET", "/v2/health/live"),
        ("GET", "/v2/health/ready"),
        ("GET", "/v2/models"),
        ("GET", "/v2/models/stats"),
        ("GET", "/V2/Models/m"),
        ("GET", "/v2/models/m/versions/3"),
        ("GET", "/v2/models/m/ready"),
        ("POST", "/v2/models/m/infer"),
        ("POST", "/v2/models/m/versions/3/generate_stream"),
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/m/load"),
        ("GET", "/v2/systemsharedmemory/status"),
        ("OPTIONS", "/v2/models/m"),
    ] {
        let (bare, slashed) = (parse(method, path).unwrap(), parse(method, &format!("{path}/")).unwrap());
        assert!(slashed == bare && bare != Route::Unknown, "{method} {path}: {slashed:?}, {bare:?}");
    }
    for path in ["/v2/models/m//", "/v2/models/m/versions//"] {
        assert_eq!(parse("GET", path).unwrap_err().message, format!("Malformed request: GET {path}"));
    }
}

#[test]
fn says_what_is_wrong_with_a_path() {
    let message = |method, path| parse(method, path).unwrap_err().message;
    assert_eq!(message("GET", "/v1/models/m:predict"), "Malformed request: GET /v1/models/m:predict");
    assert_eq!(
        message("POST", "/v1/models/m/versions/x:predict"),
        "Malformed request: POST /v1/models/m/versions/x:predict"
    );
    assert_eq!(
        message("POST", "/v1/models/m/versions/1/labels/a:predict"),
        "Malformed request: POST /v1/models/m/versions/1/labels/a:predict"
    );
    assert_eq!(message("GET", "/v1/models"), "Missing model name in request.");
    assert_eq!(
        message("GET", "/v1/models/m/versions/99999999999999999999"),
        "Failed to convert version: 99999999999999999999 to numeric."
    );
    for path in ["/v1/foo", "/V1/foo", "/v1/modelsfoo", "/v1/"] {
        assert_eq!(message("GET", path), format!("Malformed request: GET {path}"));
    }
    assert_eq!(parse("GET", "/v1").unwrap(), Route::Unknown);
    assert!(parse("GET", "/v1/models/%zz").is_err());
    assert!(parse("POST", "/v1/models/a:b:predict").is_err());
    assert!(parse("GET", "/v1/models/%").is_err());
}
