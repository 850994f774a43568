// Package pki makes certificates for servers of the loopback interface and for users of
// Kubernetes, valid for 30 days.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Authority signs certificates. Its methods may be called by several goroutines.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	// PEM is the certificate of the authority, by which others trust those it signs.
	PEM []byte
}

// New makes an authority with a key of its own.
func New() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "norn"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil, key, key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, PEM: encode("CERTIFICATE", cert.Raw)}, nil
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

// Pair is a certificate and its key, as PEM.
type Pair struct{ Cert, Key []byte }

// issue makes a key, and a certificate for it.
func (a *Authority) issue(c *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	c.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := sign(c, a.cert, key, a.key)
	if err != nil {
		return Pair{}, err
	}
	text, err := privateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encode("CERTIFICATE", cert.Raw), Key: text}, nil
}

// Server is the identity of a server on the loopback interface.
func (a *Authority) Server() (Pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// User is the identity of a user of an API server that trusts the authority.
func (a *Authority) User(name string, groups []string) (Pair, error) {
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
