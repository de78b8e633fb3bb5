package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Bugs that are planted from outside, to prove that the test finds them. Those of planted/ are in the manager itself.
const (
	plantedNone     = ""
	plantedClaim    = "lost-claim"   // a claim that was acknowledged is deleted in etcd
	plantedCompares = "compares"     // transactions lose the compares of records: concurrent changes overwrite each other
	plantedLostPut  = "lost-put"     // some claims are acknowledged, but never written to etcd
	plantedLease    = "lease"        // transactions lose the compare of the lease: a host that is gone goes on writing
	plantedContent  = "lost-content" // a volume that is staged again is empty
)

// plant is called after each fault has begun.
func (w *world) plant() {
	if w.settings.Planted != plantedClaim || w.etcd == nil {
		return
	}
	time.Sleep(300 * time.Millisecond)
	found, err := w.etcd.list(prefix + "shared/claims/")
	if err == nil && len(found.Kvs) > 0 {
		err = w.etcd.delete(string(found.Kvs[w.between(0, len(found.Kvs))/time.Millisecond].Key))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
	}
}

const lostPutEvery = 10 // transactions that take a claim, for plantedLostPut

// needsProxies tells whether the transactions of all hosts are to be changed on their way to etcd.
func needsProxies(planted string) bool {
	return planted == plantedCompares || planted == plantedLease || planted == plantedLostPut
}

// A proxy stands between a manager and a member of etcd. It passes everything on, except what the planted bug drops.
// While `late` is not zero, it holds every third transaction for so long, and then passes it on, even if the manager
// has given up by then: as a network does that delivers a request late.
type proxy struct {
	server *grpc.Server
	member *grpc.ClientConn
	host   string
	drop   string
	late   atomic.Int64 // nanoseconds
	count  atomic.Int64 // of transactions while `late` is not zero
	claims atomic.Int64 // transactions that take a claim
}

// A frame is a message that is not decoded.
type frame struct{ bytes []byte }

type frameCodec struct{}

func (frameCodec) Marshal(v any) ([]byte, error) { return v.(*frame).bytes, nil }
func (frameCodec) Unmarshal(data []byte, v any) error {
	v.(*frame).bytes = append([]byte(nil), data...)
	return nil
}
func (frameCodec) Name() string { return "frame" }

func startProxy(host string, m int, drop string) (*proxy, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", proxyPort(host, m)))
	if err != nil {
		return nil, err
	}
	member, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", hostPort(host, m)), plain(), grpc.WithConnectParams(quickly()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(frameCodec{})))
	if err != nil {
		return nil, err
	}
	p := &proxy{member: member, host: host, drop: drop}
	p.server = grpc.NewServer(grpc.ForceServerCodec(frameCodec{}), grpc.UnknownServiceHandler(p.pass))
	go p.server.Serve(listener)
	return p, nil
}

func (p *proxy) stop() {
	p.server.Stop()
	p.member.Close()
}

func (p *proxy) pass(_ any, client grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(client)
	if method == "/etcdserverpb.KV/Txn" {
		return p.passTransaction(client, method)
	}
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	if headers, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, headers)
	}
	member, err := p.member.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var request frame
			if client.RecvMsg(&request) != nil {
				_ = member.CloseSend()
				return
			}
			if member.SendMsg(&request) != nil {
				return
			}
		}
	}()
	for {
		var answer frame
		if err := member.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := client.SendMsg(&answer); err != nil {
			return err
		}
	}
}

func (p *proxy) passTransaction(client grpc.ServerStream, method string) error {
	var request, answer frame
	if err := client.RecvMsg(&request); err != nil {
		return err
	}
	if p.drop != plantedNone {
		request.bytes = p.strip(request.bytes)
	}
	ctx := client.Context()
	if late := p.late.Load(); late > 0 && p.count.Add(1)%3 == 0 {
		time.Sleep(time.Duration(late))
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.member.Invoke(ctx, method, &request, &answer); err != nil {
		return err
	}
	return client.SendMsg(&answer)
}

// strip takes out of a transaction what the planted bug drops.
func (p *proxy) strip(bytes []byte) []byte {
	var transaction etcdserverpb.TxnRequest
	if transaction.Unmarshal(bytes) != nil {
		return bytes
	}
	if p.drop == plantedLostPut && takesClaim(&transaction) && p.claims.Add(1)%lostPutEvery == 0 {
		transaction.Success = nil // etcd still says whether the compares hold
	}
	transaction.Compare = p.compares(transaction.Compare)
	stripped, err := transaction.Marshal()
	if err != nil {
		return bytes
	}
	return stripped
}

// takesClaim tells whether a transaction makes a claim that was not there.
func takesClaim(transaction *etcdserverpb.TxnRequest) bool {
	for _, compare := range transaction.Compare {
		if strings.HasPrefix(string(compare.Key), prefix+"shared/claims/") && compare.Target == etcdserverpb.Compare_MOD &&
			compare.GetModRevision() == 0 {
			return true
		}
	}
	return false
}

// compares gives those that are not dropped.
func (p *proxy) compares(all []*etcdserverpb.Compare) []*etcdserverpb.Compare {
	var left []*etcdserverpb.Compare
	for _, compare := range all {
		ofLease := strings.HasPrefix(string(compare.Key), prefix+"live/")
		ofRecord := strings.HasPrefix(string(compare.Key), prefix+"shared/")
		if !(p.drop == plantedLease && ofLease || p.drop == plantedCompares && ofRecord) {
			left = append(left, compare)
		}
	}
	return left
}
