from molecule_agent import RemoteAgentClient

agent = RemoteAgentClient.from_connection("hello.json")
agent.run(lambda message: f"you said: {message.text}")
