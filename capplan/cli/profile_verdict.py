"""How ``capplan profile`` ends where speculation damages the text."""

from __future__ import annotations

from capplan.errors import ProfileInvalidError
from capplan.profiles.losslessness import CHECK
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability

_CHECKS = (CHECK, "reported_log_probs")
"""What shows damage: the texts of two runs, or a server's reports against its own scoring."""


def refuse_damaged(profile: Profile) -> None:
    """End with an error if the profile's text failed the check: no plan may be made from it.

    Raises
    ------
    ProfileInvalidError
        With what was found first, and what to do.
    """
    found = [reason for reason in profile.verdict.reasons if reason.check in _CHECKS]
    if found and profile.verdict.stability is Stability.INVALID:
        raise ProfileInvalidError(
            f"Speculation changes what {profile.target.spec.id} writes: this profile cannot be "
            "planned with.",
            found[0].remedy,
        )
