// The screens of the console by the first part of their address, with the roles that they need besides `admin`.
import type { Component } from 'svelte'
import type { Access } from '../api/caller.svelte'
import { t } from '../strings/index.svelte'
import { route } from '../parts/router.svelte'

type Screen = Access & { title: () => string; load: () => Promise<{ default: Component }> }

export const screens = {
  sessions: {
    title: () => t().sessions,
    roles: ['app', 'reader'],
    isOfUser: true,
    load: () => (route.place ? import('./Session.svelte') : import('./Sessions.svelte')),
  },
  inbox: {
    title: () => t().inbox.title,
    roles: ['app', 'reader'],
    load: () => (route.place ? import('./HandOver.svelte') : import('./Inbox.svelte')),
  },
  play: { title: () => t().play, roles: ['app'], isOfUser: true, load: () => import('./Play.svelte') },
  write: {
    title: () => t().write.title,
    roles: ['author'],
    load: () => (route.place ? import('./Write.svelte') : import('./Scripts.svelte')),
  },
  analytics: { title: () => t().analytics.title, roles: ['analyst', 'reader'], load: () => import('./Analytics.svelte') },
  sql: { title: () => t().analytics.sql, roles: ['analyst', 'reader'], load: () => import('./Sql.svelte') },
  dashboards: {
    title: () => t().dashboards.title,
    roles: ['analyst', 'reader'],
    load: () => (route.place ? import('./Dashboard.svelte') : import('./Dashboards.svelte')),
  },
  reviews: {
    title: () => t().review.title,
    roles: ['reader'],
    load: () => (route.place ? import('./Review.svelte') : import('./Reviews.svelte')),
  },
  memory: { title: () => t().memory.title, roles: ['app', 'reader'], isOfUser: true, load: () => import('./Memory.svelte') },
  operate: {
    title: () => t().operate.title,
    roles: ['app', 'author', 'analyst', 'reader'],
    isOfUser: true,
    load: () => import('./Operate.svelte'),
  },
  reference: {
    title: () => t().apiReference,
    roles: ['app', 'author', 'analyst', 'reader'],
    isOfUser: true,
    load: () => import('./Reference.svelte'),
  },
} satisfies Record<string, Screen>
