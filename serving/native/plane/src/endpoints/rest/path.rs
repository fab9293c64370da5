//! REST paths, read as TensorFlow Serving does: any case, percent-decoded, versions in digits.

use tidegate_codec::inference::InferenceMethod;
use tidegate_codec::model_spec::{ModelSpec, VersionChoice};
use tidegate_codec::open_inference::extensions::{self, Elsewhere};
use tidegate_codec::status::Status;

/// Where paths about the server's health begin, but for `/`.
const HEALTH: &str = "/v2/health/";

/// The methods of a path that is only looked at.
pub const LOOKED_AT: &str = "GET, HEAD, OPTIONS";

/// Whether a path asks for the server's health, which is answered also where there are too many connections.
pub fn is_about_health(path: &str) -> bool {
    path == "/" || path.starts_with(HEALTH)
}

/// What a request wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /v1/models/NAME[/versions/V|/labels/L]:predict`.
    Predict(Target),
    /// `POST /v1/models/NAME[...]:classify` or `:regress`.
    Examples(InferenceMethod, Target),
    /// `GET /v1/models/NAME[...]`.
    Status(Target),
    /// `GET /v1/models/NAME[...]/metadata`.
    Metadata(Target),
    /// `OPTIONS`, a browser's question before a request.
    Preflight,
    /// `OPTIONS`, by which a client or a load balancer asks what a path, or `*` for the whole server, can do: its methods.
    Methods(&'static str),
    /// `GET /metrics`.
    Metrics,
    /// `GET /`, by which KServe's clients ask whether the process answers.
    Alive,
    /// `GET /v2/health/live`.
    Live,
    /// `GET /v2/health/ready`.
    Ready,
    /// `GET /v2/models/NAME[/versions/V]/ready`.
    ModelReady(Target),
    /// `GET /v2`.
    ServerMetadata,
    /// `GET /v2/models/NAME[/versions/V]`.
    InferMetadata(Target),
    /// `GET /v2/models/NAME[/versions/V]/config`.
    InferConfig(Target),
    /// `POST /v2/models/NAME[/versions/V]/infer`.
    Infer(Target),
    /// `POST /v2/models/NAME[/versions/V]/generate`.
    Generate(Target),
    /// `POST /v2/models/NAME[/versions/V]/generate_stream`.
    GenerateStream(Target),
    /// `POST /inference/NAME[/versions/V|/labels/L]`, or `POST /inference` where one model serves.
    Inference(Option<Target>),
    /// `GET /v2/models/NAME[/versions/V]/stats`, or `GET /v2/models/stats` of all.
    Statistics(Option<Target>),
    /// `GET /v2/models`, as KServe has it.
    ReadyModels,
    /// `GET /openapi.json`.
    OpenApi,
    /// `POST /v2/repository/index`.
    RepositoryIndex,
    /// A path of Triton's system shared memory, below `/v2/systemsharedmemory`.
    SharedMemory(RegionCall),
    /// The same of devices' memory, of which there is none.
    DeviceMemory(RegionCall),
    /// A path of an extension that is not here, such as `POST /v2/repository/models/NAME/load`.
    Elsewhere(Elsewhere),
    /// A path that we do not have.
    Unknown,
}

impl Route {
    /// Whether the body of a request is looked at.
    pub fn reads_body(&self) -> bool {
        matches!(
            self,
            Route::Predict(_)
                | Route::Examples(..)
                | Route::Infer(_)
                | Route::Inference(_)
                | Route::Generate(_)
                | Route::GenerateStream(_)
                | Route::RepositoryIndex
                | Route::SharedMemory(_)
        )
    }

    /// The model that it is about, where it is about one.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Route::Predict(target)
            | Route::Examples(_, target)
            | Route::Status(target)
            | Route::Metadata(target)
            | Route::ModelReady(target)
            | Route::InferMetadata(target)
            | Route::InferConfig(target)
            | Route::Statistics(Some(target))
            | Route::Inference(Some(target))
            | Route::Generate(target)
            | Route::GenerateStream(target)
            | Route::Infer(target) => Some(target),
            _ => None,
        }
    }
}

/// What is asked of registered regions of shared memory; the name is empty for all.
#[derive(Debug, PartialEq, Eq)]
pub enum RegionCall {
    /// `GET [/region/NAME]/status`.
    Status(String),
    /// `POST /region/NAME/register`.
    Register(String),
    /// `POST [/region/NAME]/unregister`.
    Unregister(String),
}

/// A model and which of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The model's name.
    pub name: String,
    /// A number.
    pub version: Option<i64>,
    /// Or a label.
    pub label: Option<String>,
}

impl Target {
    /// As a model spec.
    pub fn spec<'a>(&'a self, signature_name: &'a str) -> ModelSpec<'a> {
        let choice = match (self.version, &self.label) {
            (Some(version), _) => VersionChoice::Version(version),
            (None, Some(label)) => VersionChoice::Label(label),
            (None, None) => VersionChoice::Any,
        };
        ModelSpec { name: &self.name, choice, signature_name }
    }
}

/// The route to what a path is about.
type RouteOf = fn(Target) -> Route;

/// What a path ends with, and that route.
type Ending = (&'static str, RouteOf);

/// Paths that name no model.
fn fixed(method: &str, path: &str, get: bool) -> Option<Route> {
    Some(match path {
        "/metrics" | "/monitoring/prometheus/metrics" if get => Route::Metrics,
        "/openapi.json" if get => Route::OpenApi,
        "/" if get => Route::Alive,
        "/v2/health/live" if get => Route::Live,
        "/v2/health/ready" if get => Route::Ready,
        "/v2" if get => Route::ServerMetadata,
        "/v2/models" if get => Route::ReadyModels,
        "/v2/models/stats" if get => Route::Statistics(None),
        "/v2/repository/index" if method == "POST" => Route::RepositoryIndex,
        _ => return None,
    })
}

/// The methods of a path, if it has any.
fn methods(path: &str) -> Option<&'static str> {
    let has = |method| path == "*" || !matches!(parse(method, path), Ok(Route::Unknown | Route::Elsewhere(_)) | Err(_));
    match (has("GET"), has("POST")) {
        (true, true) => Some("GET, HEAD, OPTIONS, POST"),
        (true, false) => Some(LOOKED_AT),
        (false, true) => Some("OPTIONS, POST"),
        (false, false) => None,
    }
}

/// Reads a method and a path.
pub fn parse(method: &str, path: &str) -> Result<Route, Status> {
    let malformed = || Status::invalid(format!("Malformed request: {method} {path}"));
    let get = method == "GET" || method == "HEAD";
    let asked = without_last_slash(path);
    if let Some(route) = fixed(method, asked, get) {
        return Ok(route);
    }
    if method == "OPTIONS"
        && let Some(methods) = methods(path)
    {
        return Ok(Route::Methods(methods));
    }
    if let Some(rest) = strip_prefix(asked, "/v2/") {
        return v2(method, get, rest).unwrap_or_else(|| Err(malformed()));
    }
    if method == "POST"
        && let Some(rest) = strip_prefix(path, "/inference")
    {
        return target(rest).ok_or_else(malformed)?.map(Route::Inference);
    }
    let Some(rest) = strip_prefix(path, "/v1/models") else {
        return if strip_prefix(path, "/v1/").is_some() { Err(malformed()) } else { Ok(Route::Unknown) };
    };
    let (rest, verb) = match rest.split_once(':') {
        Some((rest, verb)) => (rest, Some(verb.to_ascii_lowercase())),
        None => (rest, None),
    };
    match verb.as_deref() {
        Some(verb @ ("predict" | "classify" | "regress")) if method == "POST" => {
            let target = target(rest).ok_or_else(malformed)??.ok_or_else(malformed)?;
            Ok(match verb {
                "classify" => Route::Examples(InferenceMethod::Classify, target),
                "regress" => Route::Examples(InferenceMethod::Regress, target),
                _ => Route::Predict(target),
            })
        }
        None if get => {
            let (rest, metadata) = match strip_suffix(rest, "/metadata") {
                Some(rest) => (rest, true),
                None => (rest, false),
            };
            let found = target(rest).ok_or_else(malformed)??;
            let target = found.ok_or_else(|| Status::invalid("Missing model name in request."))?;
            Ok(if metadata { Route::Metadata(target) } else { Route::Status(target) })
        }
        _ => Err(malformed()),
    }
}

/// A path as it is without the slash that some clients and proxies put behind it, where the protocol has no other meaning for that.
fn without_last_slash(path: &str) -> &str {
    path.strip_suffix('/').filter(|_| strip_prefix(path, "/v2/").is_some()).unwrap_or(path)
}

/// What is below `/v2/`; none where that is malformed.
fn v2(method: &str, get: bool, rest: &str) -> Option<Result<Route, Status>> {
    if let Some(rest) = strip_prefix(rest, "systemsharedmemory/") {
        return region_call(method, get, rest).map(|call| Ok(Route::SharedMemory(call)));
    }
    if let Some(rest) = strip_prefix(rest, "cudasharedmemory/") {
        return region_call(method, get, rest).map(|call| Ok(Route::DeviceMemory(call)));
    }
    if let Some(elsewhere) = extensions::of_path(rest) {
        return Some(Ok(Route::Elsewhere(elsewhere)));
    }
    let Some((rest, route)) = strip_prefix(rest, "models").and_then(|rest| v2_ending(method, get, rest)) else {
        return Some(Ok(Route::Unknown));
    };
    target_of(rest, true)?.map(|target| target.map(route)).transpose()
}

fn region_call(method: &str, get: bool, rest: &str) -> Option<RegionCall> {
    let (name, verb) = match strip_prefix(rest, "region/") {
        Some(rest) => {
            let (name, verb) = rest.rsplit_once('/')?;
            (percent_decode(name).filter(|name| !name.is_empty())?, verb)
        }
        None => (String::new(), rest),
    };
    match verb.to_ascii_lowercase().as_str() {
        "status" if get => Some(RegionCall::Status(name)),
        "register" if method == "POST" && !name.is_empty() => Some(RegionCall::Register(name)),
        "unregister" if method == "POST" => Some(RegionCall::Unregister(name)),
        _ => None,
    }
}

/// What a path below `/v2/models` is about, and the route; none where there is no such path.
fn v2_ending<'p>(method: &str, get: bool, rest: &'p str) -> Option<(&'p str, RouteOf)> {
    let asked: [Ending; 3] =
        [("/infer", Route::Infer), ("/generate", Route::Generate), ("/generate_stream", Route::GenerateStream)];
    let told: [Ending; 3] = [
        ("/ready", Route::ModelReady),
        ("/stats", |target| Route::Statistics(Some(target))),
        ("/config", Route::InferConfig),
    ];
    let find =
        |endings: [Ending; 3]| endings.into_iter().find_map(|(end, route)| Some((strip_suffix(rest, end)?, route)));
    match method {
        "POST" => find(asked),
        _ if get => Some(find(told).unwrap_or((rest, Route::InferMetadata))),
        _ => None,
    }
}

/// `[/NAME[/versions/V|/labels/L]]`, with name and label percent-encoded; the inner result is about the version's number.
fn target(rest: &str) -> Option<Result<Option<Target>, Status>> {
    target_of(rest, false)
}

/// The same; where versions may have names, one that is no number is a label.
fn target_of(rest: &str, named: bool) -> Option<Result<Option<Target>, Status>> {
    if rest.is_empty() || rest == "/" {
        return Some(Ok(None));
    }
    let mut parts = rest.strip_prefix('/')?.split('/');
    let name = percent_decode(parts.next().filter(|name| !name.is_empty())?)?;
    let mut target = Target { name, version: None, label: None };
    match (parts.next(), parts.next(), parts.next()) {
        (None, None, None) => {}
        (Some(key), Some(digits), None) if key.eq_ignore_ascii_case("versions") => {
            if named && digits.bytes().any(|byte| !byte.is_ascii_digit()) {
                target.label = Some(percent_decode(digits)?);
                return Some(Ok(Some(target)));
            }
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            match digits.parse() {
                Ok(version) => target.version = Some(version),
                Err(_) => {
                    return Some(Err(Status::invalid(format!("Failed to convert version: {digits} to numeric."))));
                }
            }
        }
        (Some(key), Some(label), None) if key.eq_ignore_ascii_case("labels") && !label.is_empty() => {
            target.label = Some(percent_decode(label)?);
        }
        _ => return None,
    }
    Some(Ok(Some(target)))
}

fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn strip_suffix<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    tail.eq_ignore_ascii_case(suffix).then_some(rest)
}

fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push((high * 16 + low) as u8);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}
