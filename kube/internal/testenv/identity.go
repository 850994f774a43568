package testenv

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

// authority signs the certificates of one control plane: that of its API server, and
// those by which its users tell who they are.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// newAuthority makes an authority with a key of its own.
func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "norn-testenv"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil, key, key)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", cert.Raw)}, nil
}

// sign makes a certificate for the owner of a key, by that of an authority; nil stands
// for one that signs itself.
func sign(c, parent *x509.Certificate, owner, by crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	c.SerialNumber = serial
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(30*24*time.Hour)
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, owner.Public(), by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// pair is a certificate and its key, as PEM.
type pair struct{ cert, key []byte }

// issue makes a key, and a certificate for it.
func (a *authority) issue(c *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	c.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := sign(c, a.cert, key, a.key)
	if err != nil {
		return pair{}, err
	}
	text, err := privateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: encode("CERTIFICATE", cert.Raw), key: text}, nil
}

// server is the identity of the API server on the loopback interface.
func (a *authority) server() (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// user is the identity of a user of the API server.
func (a *authority) user(name string, groups []string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// encode writes PEM.
func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// privateKey writes a key as PEM.
func privateKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encode("PRIVATE KEY", der), nil
}

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
