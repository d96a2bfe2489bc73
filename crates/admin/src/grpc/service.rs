//! The service: what is asked is passed to [`Control`], as the REST API does.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::v1::admin_server::Admin;
use super::v1::{
    self, GetConfigRequest, GetConfigResponse, UpdateConfigRequest, UpdateConfigResponse,
};
use crate::api::Actor;
use crate::control::{Control, NewConfig, Replaced, config_tag};
use crate::data_plane::{DataPlane, Notice};
use crate::fault::Fault;
use crate::if_match::IfMatch;

type Answer<T> = Result<Response<T>, Status>;

/// Reads and replaces the configuration.
pub(super) struct Configuration {
    control: Arc<Control>,
}

impl Configuration {
    pub(super) fn new(control: Arc<Control>) -> Configuration {
        Configuration { control }
    }

    fn tiers(&self) -> v1::Tiers {
        self.control.in_force().policy().settings().into()
    }
}

#[tonic::async_trait]
impl Admin for Configuration {
    async fn get_config(&self, _: Request<GetConfigRequest>) -> Answer<GetConfigResponse> {
        let config = self.control.ask(DataPlane::config).await?;
        Ok(Response::new(GetConfigResponse {
            text: config.text.to_string(),
            version: config_tag(&config.text),
            file: config.name.to_string(),
            tiers: Some(self.tiers()),
        }))
    }

    async fn update_config(
        &self,
        request: Request<UpdateConfigRequest>,
    ) -> Answer<UpdateConfigResponse> {
        let Some(Actor(actor)) = request.extensions().get().cloned() else {
            return Err(Status::from(&Fault::unauthorized()));
        };
        let UpdateConfigRequest { text, expected_version } = request.into_inner();
        let expected = expected_version.map_or(IfMatch::Whatever, IfMatch::tag);
        let Replaced { version, warnings } =
            self.control.replace_config(&actor, NewConfig { text, expected }).await?;
        Ok(Response::new(UpdateConfigResponse {
            version,
            warnings: warnings.into_iter().map(v1::Notice::from).collect(),
            tiers: Some(self.tiers()),
        }))
    }
}

impl From<Notice> for v1::Notice {
    fn from(notice: Notice) -> v1::Notice {
        let counted = |number: Option<usize>| number.unwrap_or(0).try_into().unwrap_or(u32::MAX);
        v1::Notice {
            line: counted(notice.line),
            column: counted(notice.column),
            file: notice.file.unwrap_or_default(),
            message: notice.message,
            help: notice.help.unwrap_or_default(),
        }
    }
}
