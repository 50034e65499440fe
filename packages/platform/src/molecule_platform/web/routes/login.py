"""Signing in and out."""

from datetime import timedelta
from typing import Any

from molecule_platform.domain import credentials, people
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import check_choice, invalid
from molecule_platform.services.identity.authentication import SESSION_ENDS
from molecule_platform.services.identity.login import Invitation, Login, SignedIn
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.pipeline import Fallback
from molecule_platform.web.routes import people as shapes
from molecule_wire import times

MAX_CODE_LIFETIME_SECONDS = 86_400


class LoginHandlers:
    """Serves /auth."""

    def __init__(self, login: Login, pages: Fallback) -> None:
        self._login = login
        self._pages = pages

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "login": self.sign_in,
            "login.page": self.page,
            "login.code": self.new_code,
            "login.session": self.session,
            "login.out": self.sign_out,
        }

    async def page(self, _call: Call) -> Response:
        """The canvas, which posts the code; opening the link never spends it."""
        page = self._pages("GET", "/")
        if page is None:
            raise ApiError("not-found", "the canvas is not built: run `make up`")
        return page

    async def sign_in(self, call: Call) -> Response:
        """Exchange a code or a token for a session."""
        _check_page(call)
        body: shapes.SignIn = call.body
        if (body.code is None) == (body.token is None):
            raise invalid("code", "send either code or token")
        if body.code is not None:
            signed_in = await self._login.with_code(body.code)
        else:
            signed_in = await self._login.with_token(body.token or "")
        return _welcome(signed_in, call.request.session_name, secure=call.base_url.startswith("https:"))

    async def new_code(self, call: Call) -> Response:
        """A one-time link for a user."""
        body: shapes.NewLoginCode = call.body
        user = people.check_user_name(body.user)
        role = check_choice("role", body.role, people.ROLES)
        if not 1 <= body.ttl_seconds <= MAX_CODE_LIFETIME_SECONDS:
            raise invalid("ttl_seconds", f"ttl_seconds is between 1 and {MAX_CODE_LIFETIME_SECONDS}")
        invitation = Invitation(user, role, body.org_id, timedelta(seconds=body.ttl_seconds))
        code, expires_at = await self._login.invite(call.principal, invitation, call.request_id)
        link = f"{call.base_url}/auth/login?code={code}"
        return Response({"code": code, "url": link, "expires_at": times.format_time(expires_at)}, 201)

    async def session(self, call: Call) -> Response:
        """Who this credential is."""
        principal = call.principal
        body: dict[str, Any] = {
            "principal": principal.text,
            "user": principal.name,
            "role": principal.role,
            "org_id": principal.org_id,
            "org_name": await self._login.org_name(principal.org_id),
            "scopes": sorted(principal.scopes),
            "expires_at": None if principal.expires_at is None else times.format_time(principal.expires_at),
        }
        if call.session_token is not None and "authorization" not in call.headers:
            body["csrf_token"] = credentials.csrf_token(call.session_token)
        return Response(body)

    async def sign_out(self, call: Call) -> Response:
        """End the session."""
        if call.session_token is not None:
            await self._login.sign_out(call.session_token)
        ended = f"{call.request.session_name}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"
        return Response(None, 204, (("set-cookie", ended),))


def _check_page(call: Call) -> None:
    """No other page may sign its visitor in: a form cannot send JSON, and a script names its origin."""
    kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError("unsupported-media-type", "sign in with a body of application/json")
    if "origin" in call.headers and not call.request.is_from_own_page:
        raise ApiError("csrf", "a browser may sign in from our own page only")


def _welcome(signed_in: SignedIn, cookie_name: str, *, secure: bool) -> Response:
    session = signed_in.session
    seconds = int(SESSION_ENDS.total_seconds())
    cookie = f"{cookie_name}={signed_in.token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}"
    body = {
        "user": session.user,
        "role": session.role,
        "org_id": session.org_id,
        "csrf_token": credentials.csrf_token(signed_in.token),
    }
    return Response(body, 200, (("set-cookie", cookie + ("; Secure" if secure else "")),))
