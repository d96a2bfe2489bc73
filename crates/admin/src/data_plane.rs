//! What the control plane needs of the data plane. Whoever serves requests implements it, so that neither knows the
//! other's insides.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tollgate_core::Time;
use tollgate_gate::InForce;
use tollgate_policy::compile::{Made, PlanInForce, Policy, PolicyFaults, TenantInForce};
use tollgate_storage::ObjectKind;

use crate::live::{LiveLimit, NoSuch, Whose};
use crate::refusals::RefusedRequest;

/// The data plane, as the control plane sees it.
///
/// Methods may block for as long as compiling or writing a file takes: they are called where that is allowed. No two calls
/// of [`prepare`](DataPlane::prepare) overlap with what follows from them: the control plane makes one change at a time.
pub trait DataPlane: Send + Sync + 'static {
    /// The present moment, by the clock that requests are decided by.
    fn now(&self) -> Time;

    /// The policy in force.
    fn in_force(&self) -> Arc<InForce>;

    /// The configuration in force.
    fn config(&self) -> ConfigInForce;

    /// Compiles a configuration together with what the API made, and does everything else that may fail. Nothing is in
    /// force before [`Ready::enforce`].
    ///
    /// # Errors
    ///
    /// If it cannot be put into force.
    fn prepare(&self, text: ConfigText<'_>, made: Made) -> Result<Ready, NotReady>;

    /// Whether the configuration's file says what is in force: somebody may have written into it what cannot be, or is about to.
    fn is_config_written(&self) -> bool {
        true
    }

    /// Rewrites the configuration's file, atomically and durably.
    ///
    /// # Errors
    ///
    /// If there is no file, or it cannot be written.
    fn write_config(&self, text: &str) -> Result<(), NotReady>;

    /// The live counters of somebody. [`live::look`](crate::live::look) answers it over a gate.
    ///
    /// # Errors
    ///
    /// If the question names something that does not exist.
    fn limits(&self, whose: &Whose) -> Result<Vec<LiveLimit>, NoSuch>;

    /// Makes one counter of somebody new again, by the name that [`limits`](DataPlane::limits) told; `false` if there is no such.
    /// [`live::reset`](crate::live::reset) does it over a gate.
    ///
    /// # Errors
    ///
    /// If the question names something that does not exist.
    fn reset(&self, whose: &Whose, counter: &str) -> Result<bool, NoSuch>;

    /// What is remembered of a request that was refused lately, such as a [`RefusalRing`](crate::RefusalRing) does.
    fn refusal(&self, request_id: &str) -> Option<RefusedRequest>;
}

/// Which configuration to compile.
#[derive(Clone, Copy, Debug)]
pub enum ConfigText<'a> {
    /// The one in force.
    InForce,
    /// What the file says now.
    File,
    /// This one.
    New(&'a str),
}

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct ConfigInForce {
    /// The file's name.
    pub name: Arc<str>,
    /// Its text. The same `Arc` as long as it is the same text.
    pub text: Arc<str>,
}

/// A policy that is ready to be put into force.
pub struct Ready {
    warnings: Vec<Notice>,
    tenants: HashSet<Box<str>>,
    plans: HashSet<Box<str>>,
    enforce: Box<dyn FnOnce() + Send>,
}

impl Ready {
    /// A policy, and what puts it into force.
    pub fn new(policy: &Policy, enforce: impl FnOnce() + Send + 'static) -> Ready {
        Ready {
            warnings: Notice::all(policy.warnings()),
            tenants: policy.tenants().all().iter().map(|tenant| tenant.id().into()).collect(),
            plans: policy.plans().iter().map(|plan| plan.name().into()).collect(),
            enforce: Box::new(enforce),
        }
    }

    /// The tenants and plans of `old` that it lacks.
    pub(crate) fn lacks(&self, old: &Policy) -> Vec<(ObjectKind, String)> {
        let tenants = old.tenants().all().iter().map(TenantInForce::id);
        let tenants = tenants.filter(|id| !self.tenants.contains(*id));
        let plans = old.plans().iter().map(PlanInForce::name);
        let plans = plans.filter(|name| !self.plans.contains(*name));
        let tenants = tenants.map(|id| (ObjectKind::Tenant, id.to_owned()));
        tenants.chain(plans.map(|name| (ObjectKind::Plan, name.to_owned()))).collect()
    }

    /// Adds what deserves a look and stands in no file, with what would be right.
    #[must_use]
    pub fn warning(mut self, messages: impl IntoIterator<Item = String>, help: &str) -> Ready {
        self.warnings.extend(messages.into_iter().map(|message| Notice {
            file: None,
            line: None,
            column: None,
            severity: tollgate_policy::Severity::Warning,
            message,
            help: Some(help.to_owned()),
        }));
        self
    }

    /// What deserves a look.
    pub fn warnings(&self) -> &[Notice] {
        &self.warnings
    }

    /// Puts it into force.
    pub fn enforce(self) -> Vec<Notice> {
        (self.enforce)();
        self.warnings
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("warnings", &self.warnings).finish_non_exhaustive()
    }
}

/// One fault or warning, as an answer tells it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Notice {
    /// The file, or `body`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// In characters, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// `error` or `warning`.
    #[schemars(with = "String")]
    pub severity: tollgate_policy::Severity,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Notice {
    /// All of them.
    pub fn all(diagnostics: &tollgate_policy::Diagnostics) -> Vec<Notice> {
        let notice = |record: tollgate_policy::Record<'_>| Notice {
            file: Some(record.file.to_owned()),
            line: Some(record.line),
            column: Some(record.column),
            severity: record.severity,
            message: record.message.to_owned(),
            help: record.help.map(str::to_owned),
        };
        diagnostics.records().map(notice).collect()
    }

    /// Without its place: what the API made stands in no file.
    #[must_use]
    pub(crate) fn without_place(self) -> Notice {
        Notice { file: None, line: None, column: None, ..self }
    }
}

/// Why a configuration cannot be put into force.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotReady {
    /// It is wrong.
    Faults(Box<PolicyFaults>),
    /// It changes what is set up once, at the start: these fields.
    NeedsRestart(Vec<String>),
    /// There is no file: the configuration is built in.
    NoFile,
    /// The system failed.
    Failed(String),
}

impl From<Box<PolicyFaults>> for NotReady {
    fn from(faults: Box<PolicyFaults>) -> NotReady {
        NotReady::Faults(faults)
    }
}
