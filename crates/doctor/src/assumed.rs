//! A boot configuration taken as in force, for a record.

use peerlane_fabric::assume::{AppliedSetting, SettingEffect};
use peerlane_results::AssumedSetting;

/// A setting and its effect, as the record of an examination has it.
pub fn assumed_setting(applied: AppliedSetting) -> AssumedSetting {
    let AppliedSetting { setting, effect } = applied;
    let (effect, changes) = match effect {
        SettingEffect::Changed(effect) => (effect, true),
        SettingEffect::NoChange(reason) => (reason, false),
        SettingEffect::NotHonoured(reason) => (format!("not honoured: {reason}"), false),
    };
    AssumedSetting { setting, effect, changes }
}
