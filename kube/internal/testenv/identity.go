package testenv

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
)

// config is a client configuration for a server, without an identity: protobuf where the
// server has it, and no limit on the pace of requests.
func config(address string, ca []byte) *rest.Config {
	return &rest.Config{
		Host:            "https://" + address,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
		QPS: -1, // client-go's default of 5 a second would hide everything
	}
}

// kubeconfig writes a kubeconfig of a user who has a token.
func kubeconfig(path, address, caFile, token string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: norn-testenv
clusters:
- name: norn-testenv
  cluster: {server: "https://%s", certificate-authority: %q}
users:
- name: admin
  user: {token: %q}
contexts:
- name: norn-testenv
  context: {cluster: norn-testenv, user: admin}
`, address, caFile, token)
	return os.WriteFile(path, []byte(text), 0o600)
}
