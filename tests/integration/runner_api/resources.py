"""A user with one resource of each kind, and the user's own text in each text field."""

from tests.integration.runner_api.harness import GENERATION, ApiHarness, Caller

SECRET = "anna-secret"
URL = f"http://127.0.0.1:9/{SECRET}"


async def resources(api: ApiHarness, anna: Caller, admin: Caller) -> dict[str, str]:
    """One of everything that a user can have, by the names of parameters."""
    labels = {"name": SECRET, "tags": [SECRET], "metadata": {"team": SECRET}, "webhook_url": URL}
    webhook = await anna.post("/api/v1/webhooks", {"url": URL, "description": SECRET}, 201)
    delivery = await anna.post(f"/api/v1/webhooks/{webhook['id']}/test", status=202)
    upload = await anna.http.post(
        "/api/v1/files", content=SECRET.encode(), headers={"x-file-name": f"{SECRET}.txt"}
    )
    job_id = await anna.submit(GENERATION | labels | {"prompt": SECRET}, **{"idempotency-key": SECRET})
    await api.run(SECRET)
    await anna.submit(GENERATION | labels)
    await api.run("never")
    newest = await anna.submit(GENERATION | labels)
    operation = await anna.post("/api/v1/jobs/bulk", {"action": "delete", "filter": {"name": SECRET}}, 202)
    await api.store.database.execute("UPDATE operations SET finished_at = now()")
    user_id = (await anna.get("/api/v1/me"))["user_id"]
    await admin.post(f"/admin/users/{user_id}/credit", {"amount": 5, "note": SECRET})
    keys = (await admin.get(f"/admin/users/{user_id}/keys"))["keys"]
    return {
        "job_id": job_id,
        "newest": newest,
        "execution_id": (await anna.job(job_id))["executions"][0]["id"],
        "operation_id": operation["operation_id"],
        "file_id": upload.json()["id"],
        "webhook_id": webhook["id"],
        "delivery_id": delivery["id"],
        "user_id": user_id,
        "key_id": keys[0]["id"],
        "job_class": "low",
        "name": "llama3.2-1b",
    }
