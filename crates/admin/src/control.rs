//! Where changes are made: checked by compiling them, stored, and only then put into force.
//!
//! Changes of tenants, plans and configuration go one at a time: what one was checked against is what it changes. Keys may be
//! issued and revoked all at once, but not while a tenant or plan they name might vanish.

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tollgate_core::Time;
use tollgate_gate::InForce;
use tollgate_policy::compile::Made;
use tollgate_policy::shapes::{self, File};
use tollgate_policy::{Diagnostic, PlanName, Sha256, TenantId};
use tollgate_storage::{
    AuditEntry, Change, Committed, Object, ObjectKind, Revision, Store, StoreError, Unavailable,
};

use crate::api::PlanBody;
use crate::data_plane::{ConfigText, DataPlane, NotReady, Notice, Ready};
use crate::fault::Fault;
use crate::if_match::IfMatch;

/// What the API made, as it is stored: to be compiled together with the file.
///
/// # Errors
///
/// If the storage does not work, or what it holds does not read.
pub async fn made(store: &Store) -> Result<Made, StoreError> {
    let tenants = store.objects(ObjectKind::Tenant).await?;
    let plans = store.objects(ObjectKind::Plan).await?;
    let plans: Result<Vec<PlanBody>, _> = plans.iter().map(Object::read).collect();
    Ok(Made {
        tenants: tenants.iter().map(Object::read::<shapes::Tenant>).collect::<Result<_, _>>()?,
        plans: plans?.into_iter().map(PlanBody::into_named).collect(),
    })
}

/// Tenants that are there without anybody declaring them.
const BUILT_IN: [&str; 2] = ["system", "anonymous"];

/// The right to change something.
#[derive(Debug)]
pub(crate) struct Turn {
    alone: OwnedRwLockWriteGuard<()>,
    /// What is changed was checked against this; another node may have changed it since.
    seen: Result<Revision, StoreError>,
}

impl Turn {
    /// The version that the first object has which is put in this turn.
    pub(crate) fn next_version(&self) -> Option<String> {
        self.seen.as_ref().ok().map(|seen| seen.next().to_string())
    }
}

/// A configuration to be put into force.
#[derive(Debug)]
pub(crate) struct NewConfig {
    pub(crate) text: String,
    /// What it may replace.
    pub(crate) expected: IfMatch,
}

/// A configuration that took the place of another.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) version: String,
    pub(crate) warnings: Vec<Notice>,
}

/// Everything that handlers share.
pub(crate) struct Control {
    pub(crate) store: Store,
    plane: Arc<dyn DataPlane>,
    changes: Arc<RwLock<()>>,
    /// The file in force as shapes, by the text it was read from.
    declared: Mutex<Option<(Arc<str>, Arc<File>)>>,
}

impl Control {
    pub(crate) fn new(store: Store, plane: Arc<dyn DataPlane>) -> Control {
        Control { store, plane, changes: Arc::default(), declared: Mutex::new(None) }
    }

    /// The turn of whoever changes tenants, plans or configuration, or reads a key to change it: nobody else changes anything.
    pub(crate) async fn turn(&self) -> Turn {
        let alone = Arc::clone(&self.changes).write_owned().await;
        Turn { alone, seen: self.store.revision().await }
    }

    /// While this is held no tenant and no plan vanishes.
    pub(crate) async fn steady(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.changes).read_owned().await
    }

    pub(crate) fn now(&self) -> Time {
        self.plane.now()
    }

    pub(crate) fn in_force(&self) -> Arc<InForce> {
        self.plane.in_force()
    }

    /// Calls the data plane where it may block.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn DataPlane) -> R + Send + 'static,
    ) -> Result<R, Fault> {
        let plane = Arc::clone(&self.plane);
        let done = tokio::task::spawn_blocking(move || work(&*plane)).await;
        done.map_err(|why| NotReady::Failed(format!("the work ended early: {why}")).into())
    }

    /// What the file in force declares.
    pub(crate) async fn declared(&self) -> Result<Arc<File>, Fault> {
        let config = self.plane.config();
        if let Some((text, file)) = &*self.declared.lock()
            && Arc::ptr_eq(text, &config.text)
        {
            return Ok(Arc::clone(file));
        }
        let text = Arc::clone(&config.text);
        let loaded = self
            .ask(move |_| tollgate_policy::load(&config.name, config.text.as_bytes()))
            .await??;
        let file = Arc::new(loaded.value);
        *self.declared.lock() = Some((text, Arc::clone(&file)));
        Ok(file)
    }

    /// Compiles what would be if the API had made this.
    pub(crate) async fn prepare(&self, made: Made) -> Result<Ready, Fault> {
        let ready = self.ask(move |plane| plane.prepare(ConfigText::InForce, made)).await?;
        ready.map_err(Fault::of_change)
    }

    /// What would deserve a look only since this is in force.
    pub(crate) fn new_warnings(&self, ready: &Ready) -> Vec<Notice> {
        let in_force = self.plane.in_force();
        let known: HashSet<&str> =
            in_force.policy().warnings().iter().map(Diagnostic::message).collect();
        let new = ready.warnings().iter().filter(|one| !known.contains(&*one.message));
        new.cloned().map(Notice::without_place).collect()
    }

    /// Stores changes and then puts into force what they amount to.
    ///
    /// It runs to its end even if the caller hangs up: nothing may be stored and not in force.
    pub(crate) async fn commit(
        &self,
        turn: Turn,
        changes: Vec<Change>,
        ready: Ready,
    ) -> Result<Committed, StoreError> {
        let store = self.store.clone();
        let Turn { alone, seen } = turn;
        let changes = checked(seen, changes)?;
        let done = tokio::spawn(async move {
            let committed = store.commit(changes).await?;
            enforced(ready).await?;
            drop(alone);
            Ok::<_, StoreError>(committed)
        });
        done.await.map_err(|why| Unavailable::Failed(why.to_string()))?
    }

    /// Puts a configuration into force: its audit row first, then its file, then what it says.
    pub(crate) async fn replace_config(
        &self,
        actor: &str,
        NewConfig { text, expected }: NewConfig,
    ) -> Result<Replaced, Fault> {
        let turn = self.turn().await;
        let now = self.ask(DataPlane::config).await?;
        expected.check(&config_tag(&now.text))?;
        if expected != IfMatch::Whatever && !self.ask(DataPlane::is_config_written).await? {
            return Err(Fault::new(
                StatusCode::PRECONDITION_FAILED,
                "The file was changed and is not in force: reload it, or say `If-Match: *` to replace whatever it holds.",
            ));
        }
        let ready = self.prepare_config(Some(text.clone())).await?;
        let version = config_tag(&text);
        let audit = self.audit(actor, "config.replace", "config");
        let before = serde_json::json!({ "sha256": config_tag(&now.text) });
        let after = serde_json::json!({ "sha256": version });
        let audit = told(audit, Some(before), Some(after));
        let (store, plane) = (self.store.clone(), Arc::clone(&self.plane));
        let done = tokio::spawn(async move {
            // The audit may tell of a change that failed; it must not lack one that was made.
            store.commit(vec![audit]).await?;
            let write = move || plane.write_config(&text).map(|()| ready.enforce());
            let written = tokio::task::spawn_blocking(write).await;
            drop(turn);
            Ok::<_, StoreError>(written)
        });
        let failed = |why: tokio::task::JoinError| Fault::from(NotReady::Failed(why.to_string()));
        let warnings = done.await.map_err(failed)??.map_err(failed)??;
        Ok(Replaced { version, warnings })
    }

    /// Compiles a configuration with everything that the API made.
    pub(crate) async fn prepare_config(&self, text: Option<String>) -> Result<Ready, Fault> {
        let made = made(&self.store).await?;
        let ready = self.ask(move |plane| {
            let text = text.as_deref().map_or(ConfigText::File, ConfigText::New);
            plane.prepare(text, made)
        });
        let ready = ready.await??;
        // A key whose tenant or plan vanished would be nobody's.
        for (kind, id) in ready.lacks(self.in_force().policy()) {
            let keys = self.store.keys_in_force(kind, &id, self.now()).await?;
            if keys > 0 {
                let what = format!("{} {id}, which this configuration lacks,", kind.name());
                return Err(StoreError::InUse { what, keys }.into());
            }
        }
        Ok(ready)
    }

    /// Does something in a turn of its own, to its end even if whoever asked hangs up: a turn that ended before what is done in it
    /// would let the next change be made from what this one is about to replace.
    pub(crate) async fn in_turn<T, W>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Control>) -> W,
    ) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let turn = self.turn().await;
        let work = work(Arc::clone(self));
        let done = tokio::spawn(async move {
            let done = work.await;
            drop(turn);
            done
        });
        done.await.unwrap_or_else(|why| Err(NotReady::Failed(why.to_string()).into()))
    }

    /// Reads the file again and puts it into force, together with what the API made. To be called [in a turn](Control::in_turn).
    pub(crate) async fn reload(&self, actor: &str) -> Result<Vec<Notice>, Fault> {
        let ready = self.prepare_config(None).await?;
        self.store.commit(vec![self.audit(actor, "config.reload", "config")]).await?;
        Ok(enforced(ready).await?)
    }

    /// Puts into force what other nodes have made of tenants and plans. To be called [in a turn](Control::in_turn).
    pub(crate) async fn refresh(&self) -> Result<Vec<Notice>, Fault> {
        let made = made(&self.store).await?;
        let ready = self.prepare(made).await?;
        Ok(enforced(ready).await?)
    }

    /// What a key that names these relies on: of what the API made, another node may have removed it a moment ago. What the file
    /// declares, and what is built in, does not vanish so.
    pub(crate) async fn needs(
        &self,
        tenant: Option<&TenantId>,
        plan: Option<&PlanName>,
    ) -> Result<Vec<Change>, Fault> {
        let file = self.declared().await?;
        let mut needs = Vec::new();
        if let Some(tenant) = tenant
            && !BUILT_IN.contains(&tenant.as_str())
            && !file.tenants.iter().any(|declared| declared.id == *tenant)
        {
            needs.push(Change::Needs { kind: ObjectKind::Tenant, id: tenant.to_string() });
        }
        if let Some(plan) = plan
            && !file.plans.keys().any(|name| name == plan)
        {
            needs.push(Change::Needs { kind: ObjectKind::Plan, id: plan.to_string() });
        }
        Ok(needs)
    }

    /// An audit row without a before and after.
    pub(crate) fn audit(&self, actor: &str, action: &str, subject: &str) -> Change {
        Change::Audit(AuditEntry {
            at: self.now().as_nanos(),
            actor: actor.to_owned(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            before: None,
            after: None,
        })
    }
}

/// Changes that are made only if all is as it was when they were checked. If that is not known they are not made: without the
/// check, what another node did meanwhile would be undone, and a budget exceeded.
fn checked(
    seen: Result<Revision, StoreError>,
    changes: Vec<Change>,
) -> Result<Vec<Change>, StoreError> {
    let mut all = vec![Change::Unchanged(seen?)];
    all.extend(changes);
    Ok(all)
}

/// Puts a policy into force where that may take a while: every limit of it is defined.
async fn enforced(ready: Ready) -> Result<Vec<Notice>, StoreError> {
    let done = tokio::task::spawn_blocking(move || ready.enforce()).await;
    done.map_err(|why| Unavailable::Failed(why.to_string()).into())
}

/// What tells one text of the configuration from another.
pub(crate) fn config_tag(text: &str) -> String {
    Sha256::of(text.as_bytes()).to_string()
}

/// Puts a before and after into an audit row.
pub(crate) fn told(
    change: Change,
    before: Option<serde_json::Value>,
    after: Option<serde_json::Value>,
) -> Change {
    match change {
        Change::Audit(entry) => Change::Audit(AuditEntry { before, after, ..entry }),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_changed_while_it_is_not_known_what_it_was_checked_against() {
        let hiccup = Unavailable::Failed("it does not answer".to_owned());
        let refused = checked(Err(hiccup.into()), Vec::new()).unwrap_err();
        assert_eq!(Fault::from(refused).status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
