"""Reads endpoints: the config `application.server` of the leader, and the user endpoint in a member's subscription.

An endpoint is `host:port` or `protocol://host:port`. Kafka 4.4 refuses more endpoints than Kafka 4.3. Kafka 4.4 also
checks `application.server` together with all other configs, so the text of its error differs (KIP-1245). Source:
`HostInfo.buildFromEndpoint`, `AssignorConfiguration.userEndPoint`, `ApplicationServerConfigValidator`.
"""

import re

from assignor.configs.kafka_versions import KafkaVersion
from assignor.errors import ConfigError, NumberFormatError
from assignor.types import JAVA_INT_MAX, HostInfo

APPLICATION_SERVER = "application.server"

_ENDPOINT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)
_JAVA_WHITESPACE = "".join(map(chr, range(0x21)))


def host_of(endpoint: str, version: KafkaVersion) -> HostInfo | None:
    """Returns the host and port of an endpoint. Returns None if the endpoint is blank.

    Raises ConfigError for text that is not host:port. Raises NumberFormatError in version 4.3 for a port that is not an
    int.
    """
    if not endpoint.strip(_JAVA_WHITESPACE):
        return None
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None:
        raise _not_host_and_port(endpoint)
    host, digits = match[1], match[2].lstrip("0") or "0"
    is_int = len(digits) <= len(str(JAVA_INT_MAX)) and int(digits) <= JAVA_INT_MAX
    if version.rules.refuses_incomplete_endpoints and not (host and is_int):
        raise _not_host_and_port(endpoint)
    if not is_int:
        raise NumberFormatError(f'For input string: "{match[2]}"')
    return HostInfo(host, int(digits))


def check_application_server(endpoint: str, version: KafkaVersion, log_prefix: str) -> None:
    """Raises ConfigError if the config `application.server` is not host:port. `log_prefix`: the start of the message in
    version 4.3.
    """
    try:
        host_of(endpoint, version)
    except ConfigError as error:
        if version.rules.refuses_incomplete_endpoints:
            raise ConfigError(f"Invalid value {endpoint} for configuration {APPLICATION_SERVER}: {error}") from None
        raise ConfigError(
            f"{log_prefix} Config {APPLICATION_SERVER} isn't in the correct format. Expected a host:port pair but "
            f"received {endpoint}"
        ) from None
    except NumberFormatError as error:
        cause = f"java.lang.{error.kafka_name}: {error}"
        raise ConfigError(
            f"{log_prefix} Invalid port supplied in {endpoint} for config {APPLICATION_SERVER}: {cause}"
        ) from None


def _not_host_and_port(endpoint: str) -> ConfigError:
    return ConfigError(f"Error parsing host address {endpoint}. Expected format host:port.")
